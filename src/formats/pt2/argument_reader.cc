#include "formats/pt2/argument_reader.h"

#include <cmath>
#include <limits>
#include <utility>

#include "formats/pt2/internal.h"

namespace downhaul::pt2 {
namespace {

/// {"name": N}
Status read_name(JsonReader& reader, std::string& out) {
  return reader.object([&](std::string_view key) -> Status {
    return key == "name" ? reader.read(out) : reader.skip();
  });
}

Status read_enum_value(JsonReader& reader, ScalarType& out) {
  uint8_t number = 0;
  DH_TRY(reader.read(number));
  out = static_cast<ScalarType>(number);
  if (out != ScalarType::kUnknown && item_size(out) == 0) {
    return reader.error(cat("dtype ", number, " is not known"));
  }
  return {};
}

template <typename T>
Status read_small_enum(JsonReader& reader, T last, std::string_view what, T& out) {
  uint8_t number = 0;
  DH_TRY(reader.read(number));
  out = static_cast<T>(number);
  if (out > last) return reader.error(cat(what, " ", number, " is not known"));
  return {};
}

Status read_enum_value(JsonReader& reader, MemoryFormat& out) {
  return read_small_enum(reader, MemoryFormat::kPreserve, "memory format", out);
}

Status read_enum_value(JsonReader& reader, Layout& out) {
  return read_small_enum(reader, Layout::kStrided, "layout", out);
}

Status read_flag(JsonReader& reader, Dim& out) {
  bool flag = false;
  DH_TRY(reader.read(flag));
  out.value = flag;
  return {};
}

/// {"as_name": N} or a literal.
template <typename T>
Status read_value(JsonReader& reader, T& out) {
  return read_union(reader, [&](std::string_view alternative) -> Status {
    return alternative == "as_name" ? reader.read(out.name) : reader.read(out.value);
  });
}

template <typename T>
Status read_value(JsonReader& reader, std::vector<T>& out) {
  return reader.array([&]() -> Status {
    if constexpr (requires { out.emplace_back().name; }) {
      return read_value(reader, out.emplace_back());
    } else {
      return reader.read(out.emplace_back());
    }
  });
}

Status read_value(JsonReader& reader, std::vector<bool>& out) { return reader.read(out); }
Status read_value(JsonReader& reader, std::vector<std::string>& out) { return reader.read(out); }

/// {"as_tensor": {"name": N}} or {"as_none": …}
Status read_optional_name(JsonReader& reader, std::optional<std::string>& out) {
  return read_union(reader, [&](std::string_view alternative) -> Status {
    if (alternative == "as_tensor") return read_name(reader, out.emplace());
    if (alternative == "as_none") return reader.skip();
    return reader.error(cat("expected as_tensor or as_none, found ", printable(alternative)));
  });
}

}  // namespace

template <typename T>
Status ArgumentReader::read_plain(JsonReader& reader, Argument& out) {
  return reader.read(out.emplace<T>());
}

template <typename T>
Status ArgumentReader::read_enum(JsonReader& reader, Argument& out) {
  return read_enum_value(reader, out.emplace<T>());
}

template <typename T>
Status ArgumentReader::read_list(JsonReader& reader, Argument& out) {
  return read_value(reader, out.emplace<T>());
}

Status ArgumentReader::read_none(JsonReader& reader, Argument& out) {
  out.emplace<None>();
  return reader.skip();
}

Status ArgumentReader::read_tensor(JsonReader& reader, Argument& out) {
  return read_name(reader, out.emplace<TensorRef>().name);
}

Status ArgumentReader::read_tensors(JsonReader& reader, Argument& out) {
  auto& list = out.emplace<TensorList>().names;
  return reader.array([&]() -> Status { return read_name(reader, list.emplace_back()); });
}

Status ArgumentReader::read_optional_tensor(JsonReader& reader, Argument& out) {
  std::optional<std::string> name;
  DH_TRY(read_optional_name(reader, name));
  if (name) {
    out = TensorRef{std::move(*name)};
  } else {
    out = None{};
  }
  return {};
}

Status ArgumentReader::read_optional_tensors(JsonReader& reader, Argument& out) {
  auto& list = out.emplace<OptionalTensorList>().names;
  return reader.array([&]() -> Status { return read_optional_name(reader, list.emplace_back()); });
}

Status ArgumentReader::read_nested_tensors(JsonReader& reader, Argument& out) {
  auto& lists = out.emplace<NestedTensorList>().names;
  return reader.array([&]() -> Status {
    auto& list = lists.emplace_back();
    return reader.array([&]() -> Status { return read_name(reader, list.emplace_back()); });
  });
}

Status ArgumentReader::read_device(JsonReader& reader, Argument& out) {
  Device& device = out.emplace<Device>();
  return reader.object([&](std::string_view key) -> Status {
    if (key == "type") return reader.read(device.type);
    if (key == "index") return reader.read(device.index);
    return reader.skip();
  });
}

Status ArgumentReader::read_graph_argument(JsonReader& reader, Argument& out) {
  GraphArg& argument = out.emplace<GraphArg>();
  auto graph = std::make_shared<Graph>();
  DH_TRY(reader.object([&](std::string_view key) -> Status {
    if (key == "name") return reader.read(argument.name);
    if (key == "graph") return read_graph(reader, *graph).with_context("subgraph");
    return reader.skip();
  }));
  argument.graph = std::move(graph);
  return {};
}

Status ArgumentReader::read_custom_object(JsonReader& reader, Argument& out) {
  CustomObject& object = out.emplace<CustomObject>();
  return reader.object([&](std::string_view key) -> Status {
    if (key == "name") return reader.read(object.name);
    if (key == "class_fqn") return reader.read(object.class_fqn);
    return reader.skip();
  });
}

Status ArgumentReader::read_operator(JsonReader& reader, Argument& out) {
  return reader.read(out.emplace<Operator>().name);
}

Status ArgumentReader::read_complex(JsonReader& reader, Argument& out) {
  Complex& number = out.emplace<Complex>();
  return reader.object([&](std::string_view key) -> Status {
    if (key == "real") return reader.read(number.real);
    if (key == "imag") return reader.read(number.imag);
    return reader.skip();
  });
}

Status ArgumentReader::read_string_map(JsonReader& reader, Argument& out) {
  auto map = std::make_shared<StringMap>();
  DH_TRY(reader.object([&](std::string_view key) -> Status {
    return read(reader, map->entries.emplace_back(std::string(key), None{}).second);
  }));
  out = std::shared_ptr<const StringMap>(std::move(map));
  return {};
}

ArgumentReader::Alternative ArgumentReader::find_alternative(std::string_view name) {
  using R = ArgumentReader;
  struct Row {
    std::string_view name;
    Alternative read;
  };
  // The most frequent first.
  static constexpr Row kRows[] = {
      {"as_tensor", &R::read_tensor},
      {"as_int", &R::read_plain<int64_t>},
      {"as_ints", &R::read_plain<std::vector<int64_t>>},
      {"as_float", &R::read_plain<double>},
      {"as_bool", &R::read_plain<bool>},
      {"as_none", &R::read_none},
      {"as_tensors", &R::read_tensors},
      {"as_sym_int", &R::read_list<SymIntArg>},
      {"as_sym_ints", &R::read_list<std::vector<SymIntArg>>},
      {"as_scalar_type", &R::read_enum<ScalarType>},
      {"as_layout", &R::read_enum<Layout>},
      {"as_device", &R::read_device},
      {"as_memory_format", &R::read_enum<MemoryFormat>},
      {"as_string", &R::read_plain<std::string>},
      {"as_optional_tensor", &R::read_optional_tensor},
      {"as_optional_tensors", &R::read_optional_tensors},
      {"as_floats", &R::read_plain<std::vector<double>>},
      {"as_bools", &R::read_list<std::vector<bool>>},
      {"as_strings", &R::read_list<std::vector<std::string>>},
      {"as_sym_bool", &R::read_list<SymBoolArg>},
      {"as_sym_bools", &R::read_list<std::vector<SymBoolArg>>},
      {"as_sym_float", &R::read_list<SymFloatArg>},
      {"as_sym_floats", &R::read_list<std::vector<SymFloatArg>>},
      {"as_int_lists", &R::read_list<std::vector<std::vector<int64_t>>>},
      {"as_float_lists", &R::read_list<std::vector<std::vector<double>>>},
      {"as_nested_tensors", &R::read_nested_tensors},
      {"as_graph", &R::read_graph_argument},
      {"as_custom_obj", &R::read_custom_object},
      {"as_operator", &R::read_operator},
      {"as_complex", &R::read_complex},
      {"as_string_to_argument", &R::read_string_map},
  };
  for (const Row& row : kRows) {
    if (row.name == name) return row.read;
  }
  return nullptr;
}

Status ArgumentReader::read(JsonReader& reader, Argument& out) {
  return read_union(reader, [&](std::string_view name) -> Status {
    if (const Alternative alternative = find_alternative(name)) {
      return (this->*alternative)(reader, out);
    }
    out = UnknownArg{std::string(name)};
    return reader.skip();
  });
}

Status ArgumentReader::read_expression(JsonReader& reader, Dim& out) {
  std::string text;
  DH_TRY(reader.object([&](std::string_view key) -> Status {
    if (key == "expr_str") return reader.read(text);
    if (key != "hint" || reader.kind() != JsonReader::Kind::kObject) return reader.skip();
    return read_union(reader, [&](std::string_view alternative) -> Status {
      if (alternative == "as_int") return reader.read(out.value.emplace());
      return alternative == "as_bool" ? read_flag(reader, out) : reader.skip();
    });
  }));
  out.symbolic = true;
  const auto [known, added] = expressions_.try_emplace(text);
  if (added) {
    auto parsed = parse_sym_expr(text);
    if (parsed.ok()) known->second = std::make_shared<const SymExpr>(*std::move(parsed));
  }
  out.expr = known->second;
  if (out.expr && out.expr->kind == SymExpr::Kind::kInteger) {
    out = Dim{out.expr->integer, nullptr, false};
  }
  return {};
}

Status ArgumentReader::read_dim(JsonReader& reader, Dim& out) {
  return read_union(reader, [&](std::string_view alternative) -> Status {
    if (alternative == "as_int") return reader.read(out.value.emplace());
    if (alternative == "as_expr") return read_expression(reader, out);
    if (alternative == "as_bool") return read_flag(reader, out);
    return reader.error(cat("expected as_int or as_expr, found ", printable(alternative)));
  });
}

Status ArgumentReader::read_tensor_meta(JsonReader& reader, TensorMeta& out) {
  const auto read_dims = [&](std::vector<Dim>& dims) {
    return reader.array([&]() -> Status { return read_dim(reader, dims.emplace_back()); });
  };
  return reader.object([&](std::string_view key) -> Status {
    if (key == "dtype") return read_enum_value(reader, out.dtype);
    if (key == "sizes") return read_dims(out.sizes);
    if (key == "strides") return read_dims(out.strides);
    if (key == "storage_offset") return read_dim(reader, out.storage_offset);
    if (key == "layout") return read_enum_value(reader, out.layout);
    return reader.skip();
  });
}

Status ArgumentReader::read_metadata(JsonReader& reader, Node& out) {
  return reader.object([&](std::string_view key) -> Status {
    if (key != "nn_module_stack" || reader.kind() != JsonReader::Kind::kString) {
      return reader.skip();
    }
    std::string text;
    DH_TRY(reader.read(text));
    const auto [known, added] =
        module_stacks_.try_emplace(text, static_cast<int32_t>(program_.module_stacks.size()));
    if (added) program_.module_stacks.push_back(std::move(text));
    out.module_stack = known->second;
    return {};
  });
}

Status ArgumentReader::read_node(JsonReader& reader, Node& out) {
  return reader.object([&](std::string_view key) -> Status {
    if (key == "target") return reader.read(out.target);
    if (key == "name") {
      return reader.kind() == JsonReader::Kind::kString ? reader.read(out.name) : reader.skip();
    }
    if (key == "metadata") return read_metadata(reader, out);
    if (key == "outputs") {
      return reader.array([&]() -> Status { return read(reader, out.outputs.emplace_back()); });
    }
    if (key != "inputs") return reader.skip();
    return reader.array([&]() -> Status {
      NamedArgument& input = out.inputs.emplace_back();
      return reader.object([&](std::string_view member) -> Status {
        if (member == "name") return reader.read(input.name);
        if (member == "arg") return read(reader, input.value);
        if (member != "kind" || reader.kind() == JsonReader::Kind::kNull) return reader.skip();
        return read_small_enum(reader, ArgumentKind::kKeyword, "argument kind", input.kind);
      });
    });
  });
}

template <typename Map, typename F>
Status ArgumentReader::read_values(JsonReader& reader, Map& map, F read_one) {
  return reader.object([&](std::string_view key) -> Status {
    on_progress_();
    const auto [entry, added] = map.try_emplace(std::string(key));
    if (!added) return reader.error(cat("value '", printable(key), "' is described twice"));
    return read_one(entry->second);
  });
}

Status ArgumentReader::read_graph(JsonReader& reader, Graph& out) {
  const auto read_arguments = [&](std::vector<Argument>& list) {
    return reader.array([&]() -> Status { return read(reader, list.emplace_back()); });
  };
  const auto read_dims = [&](std::unordered_map<std::string, Dim>& map) {
    return read_values(reader, map, [&](Dim& dim) { return read_dim(reader, dim); });
  };
  return reader.object([&](std::string_view key) -> Status {
    if (key == "inputs") return read_arguments(out.inputs).with_context("inputs");
    if (key == "outputs") return read_arguments(out.outputs).with_context("outputs");
    if (key == "nodes") {
      return reader.array([&]() -> Status {
        on_progress_();
        const size_t index = out.nodes.size();
        Node& node = out.nodes.emplace_back();
        Status status = read_node(reader, node);
        return status.ok() ? status : std::move(status).with_context(cat("node ", index));
      });
    }
    if (key == "tensor_values") {
      return read_values(reader, out.tensor_values,
                         [&](TensorMeta& meta) { return read_tensor_meta(reader, meta); })
          .with_context("tensor_values");
    }
    if (key == "sym_int_values")
      return read_dims(out.sym_int_values).with_context("sym_int_values");
    if (key == "sym_bool_values") {
      return read_dims(out.sym_bool_values).with_context("sym_bool_values");
    }
    if (key == "sym_float_values") {
      return read_values(reader, out.sym_float_values, [&](std::optional<double>& value) {
        return read_union(reader, [&](std::string_view alternative) -> Status {
          return alternative == "as_float" ? reader.read(value.emplace()) : reader.skip();
        });
      });
    }
    if (key == "is_single_tensor_return") return reader.read(out.is_single_tensor_return);
    return reader.skip();
  });
}

Status read_tensor_meta(JsonReader& reader, TensorMeta& out) {
  Program unused;
  return ArgumentReader(unused, [] {}).read_tensor_meta(reader, out);
}

}  // namespace downhaul::pt2

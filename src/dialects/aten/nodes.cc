// Nodes of the program, one after the other.
#include <algorithm>

#include "base/strings.h"
#include "dialects/aten/importer.h"
#include "dialects/aten/liveness.h"

namespace downhaul::aten {
namespace {

// Subgraphs hold subgraphs; no model comes near.
constexpr size_t kMaxDepth = 32;

const Row* row_of(std::string_view overload, bool& in_place) {
  in_place = false;
  if (const Row* row = find_row(overload)) return row;
  const std::string functional = functional_overload(overload);
  if (functional.empty()) return nullptr;
  in_place = true;
  return find_row(functional);
}

bool is_known_higher_order(std::string_view name) {
  return name == "wrap_with_set_grad_enabled" || name == "wrap_with_autocast" || name == "cond";
}

// Markers around vmap, with nothing inside them once batching is gone.
bool is_marker(std::string_view predispatch) {
  return predispatch == "lazy_load_decompositions" || predispatch == "_vmap_increment_nesting" ||
         predispatch == "_vmap_decrement_nesting";
}

void add_output_names(const pt2::Argument& output, std::vector<const std::string*>& names) {
  if (const auto* ref = std::get_if<pt2::TensorRef>(&output)) {
    names.push_back(&ref->name);
  } else if (const auto* list = std::get_if<pt2::TensorList>(&output)) {
    for (const std::string& n : list->names) names.push_back(&n);
  } else if (const auto* optional = std::get_if<pt2::OptionalTensorList>(&output)) {
    for (const auto& n : optional->names) names.push_back(n ? &*n : nullptr);
  } else if (const auto* i = std::get_if<pt2::SymIntArg>(&output)) {
    names.push_back(&i->name);
  } else if (const auto* b = std::get_if<pt2::SymBoolArg>(&output)) {
    names.push_back(&b->name);
  } else if (const auto* f = std::get_if<pt2::SymFloatArg>(&output)) {
    names.push_back(&f->name);
  } else {
    names.push_back(nullptr);  // None, or a plain value
  }
}

}  // namespace

void Importer::count_unknown(const pt2::Graph& graph, const std::vector<bool>& live,
                             std::map<std::string, int>& unknown, int depth) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!live.empty() && !live[i]) continue;
    const pt2::Node& node = graph.nodes[i];
    const Target target = parse_target(node.target);
    bool in_place = false;
    bool known = false;
    if (!target.overload.empty()) {
      known = row_of(target.overload, in_place) != nullptr;
    } else if (!target.higher_order.empty()) {
      known = is_known_higher_order(target.higher_order);
    } else {
      known = !target.function.empty() || is_marker(target.predispatch);
    }
    if (!known) ++unknown[node.target];
    if (depth <= 0) continue;
    for (const pt2::NamedArgument& a : node.inputs) {
      if (const auto* sub = std::get_if<pt2::GraphArg>(&a.value); sub != nullptr && sub->graph) {
        count_unknown(*sub->graph, {}, unknown, depth - 1);
      }
    }
  }
}

Status Importer::check_operators(const pt2::Graph& graph, const std::vector<bool>& live) {
  std::map<std::string, int> unknown;
  count_unknown(graph, live, unknown, static_cast<int>(kMaxDepth));
  if (unknown.empty()) return {};
  std::vector<std::string> parts;
  for (const auto& [target, count] : unknown) {
    constexpr std::string_view kPrefix = "torch.ops.";
    std::string_view shown = target;
    if (shown.starts_with(kPrefix)) shown.remove_prefix(kPrefix.size());
    parts.push_back(cat(printable(shown), " (", count, count == 1 ? " node)" : " nodes)"));
  }
  return unsupported(cat(unknown.size(), unknown.size() == 1 ? " operator is" : " operators are",
                         " not supported: ", join(parts, ", ")));
}

std::string Importer::describe_node(const pt2::Node& node, size_t index) const {
  std::string_view target = node.target;
  constexpr std::string_view kPrefix = "torch.ops.";
  if (target.starts_with(kPrefix)) target.remove_prefix(kPrefix.size());
  std::string name = node.name;
  if (name.empty()) {
    for (const pt2::Argument& output : node.outputs) {
      std::vector<const std::string*> names;
      add_output_names(output, names);
      if (!names.empty() && names[0] != nullptr) {
        name = *names[0];
        break;
      }
    }
  }
  return cat("node ", index, " '", printable(name), "' (", printable(target), ")");
}

int Importer::origin_of(const pt2::Node& node) {
  Origin origin;
  origin.name = node.name;
  if (origin.name.empty() && !node.outputs.empty()) {
    std::vector<const std::string*> names;
    add_output_names(node.outputs[0], names);
    if (!names.empty() && names[0] != nullptr) origin.name = *names[0];
  }
  if (node.module_stack >= 0 &&
      static_cast<size_t>(node.module_stack) < program_.module_stacks.size()) {
    const auto stack = static_cast<size_t>(node.module_stack);
    if (module_paths_.empty()) {
      module_paths_.reserve(program_.module_stacks.size());
      for (const std::string& text : program_.module_stacks) {
        std::vector<pt2::ModuleScope> scopes = pt2::parse_module_stack(text);
        module_paths_.push_back(scopes.empty() ? std::string() : std::move(scopes.back().fqn));
      }
    }
    origin.module_path = module_paths_[stack];
  }
  graph_.origins.push_back(std::move(origin));
  return static_cast<int>(graph_.origins.size()) - 1;
}

const ParsedRow& Importer::parsed(const Row& row) {
  const auto [it, fresh] = rows_.try_emplace(&row);
  if (fresh) it->second = parse_row(row);
  return it->second;
}

Status Importer::import_nodes(const pt2::Graph& graph, const std::vector<bool>& live) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!live.empty() && !live[i]) continue;
    if (Status s = import_node(graph.nodes[i], i); !s.ok()) {
      return std::move(s).with_context(describe_node(graph.nodes[i], i));
    }
  }
  return {};
}

Status Importer::import_node(const pt2::Node& node, size_t) {
  const Target target = parse_target(node.target);
  Builder b(graph_, nullptr);
  b.set_origins({origin_of(node)});
  if (!target.overload.empty()) return import_overload(node, target.overload, b);
  if (!target.function.empty()) return import_function(node, target.function, b);
  if (!target.higher_order.empty()) return import_higher_order(node, target.higher_order, b);
  return bind(node, std::monostate{}, b);
}

Status Importer::check_arguments(const pt2::Node& node, const ParsedRow& row) {
  for (const pt2::NamedArgument& a : node.inputs) {
    if (row.find(a.name) == nullptr) {
      return unsupported(cat("it has the argument '", printable(a.name), "', which ", row.overload,
                             " does not have here"));
    }
    if (const auto* unknown = std::get_if<pt2::UnknownArg>(&a.value)) {
      return unsupported(cat("argument '", a.name, "' is of the unknown kind '",
                             printable(unknown->alternative), "'"));
    }
    if (const auto* layout = std::get_if<pt2::Layout>(&a.value)) {
      if (*layout != pt2::Layout::kStrided && *layout != pt2::Layout::kUnknown) {
        return unsupported("sparse tensors are not supported");
      }
    }
    if (std::holds_alternative<pt2::Complex>(a.value)) {
      return unsupported(cat("argument '", a.name, "' is a complex number"));
    }
    if (const auto* object = std::get_if<pt2::CustomObject>(&a.value)) {
      return unsupported(cat("argument '", a.name, "' is a script object of class ",
                             printable(object->class_fqn)));
    }
  }
  for (const Parameter& p : row.parameters) {
    if (!p.has_default && node.find(p.name) == nullptr) {
      return invalid_graph(cat("argument '", p.name, "' is missing"));
    }
  }
  return {};
}

Status Importer::import_overload(const pt2::Node& node, std::string_view overload, Builder& b) {
  bool in_place = false;
  const Row* found = row_of(overload, in_place);
  if (found == nullptr) return unsupported("the operator is not supported");
  const ParsedRow& row = parsed(*found);
  DH_TRY(check_arguments(node, row));
  Call call(*this, node, row, b);
  Out out = found->raise(call);
  if (!b.status().ok()) return b.status();
  if (in_place) return write_in_place(node, row, call, out, b);
  return bind(node, std::move(out), b);
}

// The result goes into the storage of the first argument, in its dtype and shape.
Status Importer::write_in_place(const pt2::Node& node, const ParsedRow& row, Call& call,
                                const Out& out, Builder& b) {
  View* self = call.view(row.parameters[0].name);
  if (!b.status().ok()) return b.status();
  if (View* const* view = std::get_if<View*>(&out)) {
    // detach_ and the like give the tensor itself; squeeze_ and the like change its shape.
    if (*view != self) return unsupported("it changes the shape of a tensor in place");
    return bind(node, self, b);
  }
  Value* const* value = std::get_if<Value*>(&out);
  if (value == nullptr || *value == nullptr) return unsupported("it has no single tensor to write");
  Value* content = call.expand(call.cast(*value, self->type.dtype), self->type.shape);
  if (content != nullptr) aliases_.write(self, content, b);
  if (!b.status().ok()) return b.status();
  return bind(node, self, b);
}

Status Importer::import_function(const pt2::Node& node, std::string_view function, Builder& b) {
  static const ParsedRow* const kNoRow = new ParsedRow;
  Call call(*this, node, *kNoRow, b);
  const std::vector<Sym> args = call.syms();
  if (!b.status().ok()) return b.status();
  Sym value = apply_function(function, args);
  if (std::holds_alternative<Unknown>(value) && node.outputs.size() == 1) {
    // The exporter may know a simpler form.
    const auto* name = std::get_if<pt2::SymIntArg>(&node.outputs[0]);
    const pt2::Graph& graph = *scopes_.back().graph;
    const auto recorded =
        name == nullptr ? graph.sym_int_values.end() : graph.sym_int_values.find(name->name);
    if (recorded != graph.sym_int_values.end()) {
      if (recorded->second.expr != nullptr) {
        value = evaluate(*recorded->second.expr, [this](std::string_view n) { return symbol(n); });
      } else if (!recorded->second.symbolic && recorded->second.value) {
        value = Dim(*recorded->second.value);
      }
    }
  }
  return bind(node, std::move(value), b);
}

Scope::Entity Importer::entity_of(const pt2::Argument& argument, Builder& b) {
  const auto named = [&](const std::string& name) -> Scope::Entity {
    const Scope::Entity* e = lookup(name, b);
    return e == nullptr ? Scope::Entity{} : *e;
  };
  if (const auto* ref = std::get_if<pt2::TensorRef>(&argument)) return named(ref->name);
  if (const auto* i = std::get_if<pt2::SymIntArg>(&argument)) {
    return i->name.empty() ? Scope::Entity(Sym(Dim(i->value))) : named(i->name);
  }
  if (const auto* x = std::get_if<pt2::SymBoolArg>(&argument)) {
    return x->name.empty() ? Scope::Entity(Sym(x->value)) : named(x->name);
  }
  if (const auto* f = std::get_if<pt2::SymFloatArg>(&argument)) {
    return f->name.empty() ? Scope::Entity(Sym(f->value)) : named(f->name);
  }
  if (const int64_t* i = std::get_if<int64_t>(&argument)) return Sym(Dim(*i));
  if (const double* f = std::get_if<double>(&argument)) return Sym(*f);
  if (const bool* x = std::get_if<bool>(&argument)) return Sym(*x);
  return std::monostate{};
}

Status Importer::import_higher_order(const pt2::Node& node, std::string_view name, Builder& b) {
  const auto argument = [&](size_t i) -> const pt2::Argument* {
    return i < node.inputs.size() ? &node.inputs[i].value : nullptr;
  };
  const auto truth = [&](size_t i) -> const bool* {
    const pt2::Argument* a = argument(i);
    return a == nullptr ? nullptr : std::get_if<bool>(a);
  };
  if (name == "wrap_with_set_grad_enabled" && argument(1) != nullptr) {
    return inline_graph(node, *argument(1), 2, b);
  }
  if (name == "wrap_with_autocast" && argument(4) != nullptr) {
    const bool* enabled = truth(2);
    if (enabled == nullptr || *enabled) return unsupported("autocast inside the model");
    return inline_graph(node, *argument(4), 5, b);
  }
  if (name == "cond" && argument(2) != nullptr) {
    const Scope::Entity predicate = entity_of(*argument(0), b);
    if (!b.status().ok()) return b.status();
    std::optional<bool> taken;
    if (const Sym* s = std::get_if<Sym>(&predicate)) {
      if (const bool* known = std::get_if<bool>(s)) taken = *known;
    } else if (View* const* view = std::get_if<View*>(&predicate)) {
      const std::optional<Tensor> content = fold(aliases_.read(*view, b));
      if (content && content->num_elements() == 1) taken = content->int_at(0) != 0;
    }
    if (!taken) {
      return unsupported("a branch whose condition is known only at run time");
    }
    return inline_graph(node, *argument(*taken ? 1 : 2), 3, b);
  }
  return unsupported("the higher-order operator is not supported");
}

Status Importer::inline_graph(const pt2::Node& node, const pt2::Argument& graph_argument,
                              size_t first_operand, Builder& b) {
  const auto* arg = std::get_if<pt2::GraphArg>(&graph_argument);
  if (arg == nullptr || arg->graph == nullptr) return invalid_graph("its subgraph is missing");
  if (scopes_.size() >= kMaxDepth) return unsupported("subgraphs nested too deeply");
  const pt2::Graph& sub = *arg->graph;

  std::vector<Scope::Entity> operands;
  for (size_t i = first_operand; i < node.inputs.size(); ++i) {
    const pt2::Argument& a = node.inputs[i].value;
    if (const auto* list = std::get_if<pt2::TensorList>(&a)) {
      for (const std::string& n : list->names) {
        operands.push_back(entity_of(pt2::TensorRef{n}, b));
      }
    } else {
      operands.push_back(entity_of(a, b));
    }
  }
  if (!b.status().ok()) return b.status();
  if (operands.size() != sub.inputs.size()) {
    return invalid_graph(
        cat("its subgraph takes ", sub.inputs.size(), " operands, found ", operands.size()));
  }
  Scope& scope = scopes_.emplace_back();
  scope.graph = &sub;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::vector<const std::string*> names;
    add_output_names(sub.inputs[i], names);
    if (names[0] != nullptr) scope.names.emplace(*names[0], operands[i]);
  }
  DH_TRY(import_nodes(sub, {}));
  std::vector<Scope::Entity> results;
  for (const pt2::Argument& output : sub.outputs) results.push_back(entity_of(output, b));
  if (!b.status().ok()) return b.status();
  scopes_.pop_back();

  std::vector<const std::string*> names;
  for (const pt2::Argument& output : node.outputs) add_output_names(output, names);
  if (names.size() > results.size()) {
    return invalid_graph(
        cat("its subgraph gives ", results.size(), " results, expected ", names.size()));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != nullptr) scopes_.back().names.insert_or_assign(*names[i], results[i]);
  }
  return {};
}

Status Importer::bind(const pt2::Node& node, Out out, Builder& b) {
  if (!b.status().ok()) return b.status();
  std::vector<const std::string*> names;
  for (const pt2::Argument& output : node.outputs) add_output_names(output, names);
  std::vector<Scope::Entity> results;
  // Values that this node made get its name; a result that is an operand unchanged keeps its own.
  const auto give_name = [&](Value* v) {
    const std::string* name = results.size() < names.size() ? names[results.size()] : nullptr;
    if (name == nullptr || v->name() == *name) return;
    const std::vector<Node*>& created = b.created();
    if (std::find(created.rbegin(), created.rend(), v->producer()) == created.rend()) return;
    graph_.rename(v, *name);
  };
  const auto add_tensor = [&](Value* v) {
    give_name(v);
    results.emplace_back(aliases_.fresh(v));
  };
  const auto add_view = [&](View* v) {
    give_name(v->value);
    results.emplace_back(v);
  };
  if (Value** value = std::get_if<Value*>(&out)) {
    add_tensor(*value);
  } else if (auto* values = std::get_if<std::vector<Value*>>(&out)) {
    for (Value* v : *values) add_tensor(v);
  } else if (View** view = std::get_if<View*>(&out)) {
    add_view(*view);
  } else if (auto* views = std::get_if<std::vector<View*>>(&out)) {
    for (View* v : *views) add_view(v);
  } else if (Sym* s = std::get_if<Sym>(&out)) {
    results.emplace_back(std::move(*s));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == nullptr) continue;
    if (i >= results.size()) {
      scopes_.back().names.insert_or_assign(
          *names[i], Sym(Unknown{cat("result ", i, " of ", node.target, " is not supported")}));
      continue;
    }
    if (View* const* view = std::get_if<View*>(&results[i])) {
      DH_TRY(check_type(*names[i], (*view)->type));
    }
    scopes_.back().names.insert_or_assign(*names[i], std::move(results[i]));
  }
  return {};
}

Status Importer::check_type(const std::string& name, const TensorType& type) {
  const pt2::TensorMeta* m = meta(name);
  if (m == nullptr) return {};
  bool same = to_dtype(m->dtype) == type.dtype && m->sizes.size() == type.shape.size();
  for (size_t d = 0; same && d < type.shape.size(); ++d) {
    const pt2::Dim& expected = m->sizes[d];
    if (!expected.value) continue;
    if (!expected.symbolic && type.shape[d].is_static()) {
      same = *expected.value == type.shape[d].value();
    } else if (const auto example = type.shape[d].eval(hints_)) {
      // Two spellings of one dynamic size agree at the sizes that the model was exported with.
      same = *expected.value == *example;
    }
  }
  if (same) return {};
  std::vector<std::string> sizes;
  for (const pt2::Dim& d : m->sizes) {
    sizes.push_back(d.symbolic ? (d.expr ? pt2::to_string(*d.expr) : "?")
                               : cat(d.value.value_or(-1)));
  }
  return invalid_graph(cat("'", printable(name), "' is ", type.str(), ", the archive states ",
                           pt2::name(m->dtype), "[", join(sizes, ","), "]"));
}

}  // namespace downhaul::aten

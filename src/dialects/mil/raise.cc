#include "dialects/mil/raise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "base/strings.h"
#include "dialects/mil/raiser.h"

namespace downhaul::coreml {
namespace {

const RaiseRow* row_of(std::string_view type) {
  static const std::map<std::string_view, const RaiseRow*> kRows = [] {
    std::map<std::string_view, const RaiseRow*> rows;
    for (const auto list : {raise_elementwise_rows(), raise_image_rows(), raise_product_rows(),
                            raise_shape_rows(), raise_weight_rows()}) {
      for (const RaiseRow& row : list) rows.emplace(row.type, &row);
    }
    return rows;
  }();
  const auto found = kRows.find(type);
  return found != kRows.end() ? found->second : nullptr;
}

Result<TensorType> type_of(const mil::Type& type, const mil::Feature* feature) {
  const auto dtype = ir_dtype(type.dtype);
  if (type.kind != mil::Type::Kind::kTensor || !dtype) {
    return unsupported(cat("expected a tensor of numbers, found ", mil::dtype_name(type.dtype)));
  }
  TensorType out;
  out.dtype = *dtype;
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (type.shape[i]) {
      out.shape.emplace_back(*type.shape[i]);
    } else if (feature != nullptr && i < feature->shape.size()) {
      out.shape.emplace_back(feature->shape[i]);
    } else {
      return unsupported("a size that neither the program nor its description states");
    }
  }
  return out;
}

class Raiser {
 public:
  Raiser(const mil::Package& package, const mil::Function& function,
         const std::vector<mil::Feature>& inputs)
      : package_(package), function_(function), features_(inputs) {}

  Result<std::unique_ptr<Graph>> run() {
    DH_TRY(refuse_unknown());
    graph_ = std::make_unique<Graph>();
    for (const mil::NamedType& input : function_.inputs) {
      const auto feature =
          std::find_if(features_.begin(), features_.end(),
                       [&](const mil::Feature& f) { return f.name == input.name; });
      auto type = type_of(input.type, feature != features_.end() ? &*feature : nullptr);
      if (!type.ok()) {
        return std::move(type).status().with_context(cat("input '", printable(input.name), "'"));
      }
      values_[input.name] = graph_->add_input(input.name, *type);
    }
    for (const mil::Operation& o : function_.block.operations) DH_TRY(raise(o));
    for (const std::string& name : function_.block.outputs) {
      const auto value = values_.find(name);
      if (value != values_.end()) {
        graph_->add_output(value->second, name);
      } else {
        const auto constant = constants_.find(name);
        if (constant == constants_.end()) {
          return invalid_graph(cat("output '", printable(name), "' is not defined"));
        }
        DH_ASSIGN(Tensor t, tensor_of(package_, *constant->second));
        graph_->add_output(graph_->add_constant(std::move(t), name), name);
      }
    }
    graph_->remove_dead();
    return std::move(graph_);
  }

 private:
  Status refuse_unknown() const {
    std::map<std::string, int> unknown;
    for (const mil::Operation& o : function_.block.operations) {
      if (o.type != "const" && row_of(o.type) == nullptr) ++unknown[printable(o.type, 60)];
    }
    if (unknown.empty()) return {};
    std::vector<std::string> names;
    for (const auto& [type, count] : unknown) names.push_back(cat(type, " (", count, ")"));
    return unsupported(cat("unknown operations: ", join(names, ", ")));
  }

  Status raise(const mil::Operation& o) {
    if (o.type == "const") {
      constants_[o.outputs[0].name] = o.attribute("val");
      return {};
    }
    const std::string name = o.outputs.empty() ? std::string() : o.outputs[0].name;
    Builder builder(*graph_, nullptr);
    graph_->origins.push_back({name, ""});
    builder.set_origins({static_cast<int>(graph_->origins.size()) - 1});
    RaiseCall call(package_, o, values_, constants_, builder);
    const Values results = row_of(o.type)->raise(call);
    const auto fault = [&](Status status) {
      return std::move(status).with_context(
          cat("operation '", printable(name, 60), "' (", o.type, ")"));
    };
    if (!builder.status().ok()) return fault(Status(builder.status()));
    if (results.size() != o.outputs.size()) {
      return fault(invalid_graph(
          cat("it has ", results.size(), " results, ", o.outputs.size(), " are declared")));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] == nullptr) return fault(invalid_graph("no result"));
      DH_TRY(check(o.outputs[i].type, *results[i], fault));
      values_[o.outputs[i].name] = results[i];
    }
    return {};
  }

  template <typename Fault>
  static Status check(const mil::Type& declared, const Value& found, const Fault& fault) {
    bool same = declared.kind == mil::Type::Kind::kTensor &&
                ir_dtype(declared.dtype) == found.dtype() &&
                static_cast<int64_t>(declared.shape.size()) == found.rank();
    for (size_t i = 0; same && i < declared.shape.size(); ++i) {
      same = !declared.shape[i] || found.dim(static_cast<int64_t>(i)) == Dim(*declared.shape[i]);
    }
    if (same) return {};
    std::vector<std::string> dims;
    for (const auto& d : declared.shape) dims.push_back(d ? cat(*d) : "?");
    return fault(invalid_graph(cat("declared as ", mil::dtype_name(declared.dtype), "[",
                                   join(dims, ","), "], it gives ", found.type().str())));
  }

  const mil::Package& package_;
  const mil::Function& function_;
  const std::vector<mil::Feature>& features_;
  std::unique_ptr<Graph> graph_;
  std::map<std::string, Value*, std::less<>> values_;
  std::map<std::string, const mil::Value*, std::less<>> constants_;
};

}  // namespace

std::optional<DType> ir_dtype(mil::DType dtype) {
  switch (dtype) {
    case mil::DType::kBool:
      return DType::kBool;
    case mil::DType::kF16:
      return DType::kF16;
    case mil::DType::kF32:
      return DType::kF32;
    case mil::DType::kI8:
      return DType::kI8;
    case mil::DType::kU8:
      return DType::kU8;
    case mil::DType::kI16:
      return DType::kI16;
    // No model's ids and shapes come near the difference.
    case mil::DType::kU16:
    case mil::DType::kI32:
    case mil::DType::kU32:
      return DType::kI32;
    default:
      return std::nullopt;
  }
}

Result<Tensor> tensor_of(const mil::Package& package, const mil::Value& value) {
  Sizes sizes;
  for (const auto& size : value.type.shape) {
    if (!size) return invalid_graph("a constant of unknown size");
    sizes.push_back(*size);
  }
  DH_ASSIGN(const Bytes bytes, mil::value_bytes(package, value));
  if (value.type.dtype == mil::DType::kU16) {
    const auto count = static_cast<int64_t>(bytes.size() / 2);
    Tensor wide(DType::kI32, sizes);
    for (int64_t i = 0; i < count; ++i) {
      uint16_t v = 0;
      std::memcpy(&v, bytes.data() + 2 * i, sizeof(v));
      wide.set_int(i, v);
    }
    return wide;
  }
  auto dtype = ir_dtype(value.type.dtype);
  if (!dtype) {
    const int bits = mil::bits_of(value.type.dtype);
    if (bits == 0 || bits > 8) {
      return unsupported(cat("constants of ", mil::dtype_name(value.type.dtype)));
    }
    // Packed elements, for whoever unpacks them.
    dtype = DType::kU8;
    sizes = {static_cast<int64_t>(bytes.size())};
  }
  if (std::holds_alternative<mil::BlobRef>(value.content)) {
    const auto& file = package.weights->file();
    const auto offset = static_cast<uint64_t>(bytes.data() - file->bytes().data());
    return Tensor(*dtype, sizes, Storage::map(file, offset, bytes.size()), 0);
  }
  auto storage = Storage::allocate(bytes.size());
  if (!bytes.empty()) std::memcpy(storage->mutable_bytes().data(), bytes.data(), bytes.size());
  return Tensor(*dtype, sizes, std::move(storage), 0);
}

bool RaiseCall::has(std::string_view argument) const {
  return op_.input(argument) != nullptr || op_.attribute(argument) != nullptr;
}

Value* RaiseCall::refuse(std::string_view why) {
  b.fail(unsupported(std::string(why)));
  return nullptr;
}

Value* RaiseCall::value_of(const mil::Binding& binding, std::string_view argument) {
  const mil::Value* immediate = std::get_if<mil::Value>(&binding);
  std::string name = "c";
  if (immediate == nullptr) {
    name = std::get<std::string>(binding);
    const auto known = values_.find(name);
    if (known != values_.end()) return known->second;
    const auto constant = constants_.find(name);
    if (constant == constants_.end())
      return refuse(cat(argument, ": no value '", printable(name), "'"));
    immediate = constant->second;
  }
  auto t = tensor_of(package_, *immediate);
  if (!t.ok()) {
    b.fail(std::move(t).status().with_context(argument));
    return nullptr;
  }
  Value* made = b.constant(*std::move(t), name);
  if (std::holds_alternative<std::string>(binding)) values_[name] = made;
  return made;
}

Value* RaiseCall::in(std::string_view argument) {
  const mil::Argument* a = op_.input(argument);
  if (a == nullptr || a->bindings.size() != 1) return refuse(cat(argument, ": expected one value"));
  return value_of(a->bindings[0], argument);
}

std::vector<Value*> RaiseCall::list(std::string_view argument) {
  const mil::Argument* a = op_.input(argument);
  std::vector<Value*> out;
  if (a == nullptr || a->bindings.empty()) {
    refuse(cat(argument, ": expected values"));
    return out;
  }
  for (const mil::Binding& binding : a->bindings) {
    out.push_back(value_of(binding, argument));
    if (out.back() == nullptr) return {};
  }
  return out;
}

const mil::Value* RaiseCall::compile_time(std::string_view argument) const {
  if (const mil::Value* v = op_.attribute(argument)) return v;
  const mil::Argument* a = op_.input(argument);
  if (a == nullptr || a->bindings.size() != 1) return nullptr;
  if (const auto* v = std::get_if<mil::Value>(&a->bindings[0])) return v;
  const auto known = constants_.find(std::get<std::string>(a->bindings[0]));
  return known != constants_.end() ? known->second : nullptr;
}

Tensor RaiseCall::tensor(std::string_view argument) {
  const mil::Value* v = compile_time(argument);
  if (v == nullptr) {
    refuse(cat(argument, ": expected a constant"));
    return Tensor(DType::kF32, {0});
  }
  auto t = tensor_of(package_, *v);
  if (!t.ok()) {
    b.fail(std::move(t).status().with_context(argument));
    return Tensor(DType::kF32, {0});
  }
  return *std::move(t);
}

Ints RaiseCall::ints(std::string_view argument) {
  const Tensor t = tensor(argument);
  if (is_float(t.dtype())) {
    if (ok()) refuse(cat(argument, ": expected integers"));
    return {};
  }
  Ints out;
  for (int64_t i = 0; i < t.num_elements(); ++i) out.push_back(t.int_at(i));
  return out;
}

int64_t RaiseCall::integer(std::string_view argument, int64_t otherwise) {
  if (!has(argument)) return otherwise;
  const Ints values = ints(argument);
  if (values.size() != 1) {
    if (ok()) refuse(cat(argument, ": expected one integer"));
    return otherwise;
  }
  return values[0];
}

double RaiseCall::number(std::string_view argument, double otherwise) {
  if (!has(argument)) return otherwise;
  const Tensor t = tensor(argument);
  if (t.num_elements() != 1) {
    if (ok()) refuse(cat(argument, ": expected one number"));
    return otherwise;
  }
  return t.at(0);
}

bool RaiseCall::flag(std::string_view argument, bool otherwise) {
  return number(argument, otherwise ? 1 : 0) != 0;
}

std::vector<bool> RaiseCall::flags(std::string_view argument, size_t size) {
  std::vector<bool> out(size, false);
  if (!has(argument)) return out;
  const Tensor t = tensor(argument);
  if (static_cast<size_t>(t.num_elements()) != size) {
    if (ok()) refuse(cat(argument, ": expected ", size, " flags"));
    return out;
  }
  for (size_t i = 0; i < size; ++i) out[i] = t.int_at(static_cast<int64_t>(i)) != 0;
  return out;
}

std::string RaiseCall::text(std::string_view argument, std::string otherwise) {
  if (!has(argument)) return otherwise;
  const mil::Value* v = compile_time(argument);
  const auto* strings = v != nullptr ? std::get_if<std::vector<std::string>>(&v->content) : nullptr;
  if (strings == nullptr || strings->size() != 1) {
    refuse(cat(argument, ": expected a text"));
    return otherwise;
  }
  return (*strings)[0];
}

int64_t RaiseCall::axis(int64_t value, int64_t rank) {
  const int64_t a = value < 0 ? value + rank : value;
  if (a < 0 || a >= rank) {
    refuse(cat("axis ", value, " of ", rank, " dimensions"));
    return 0;
  }
  return a;
}

Ints RaiseCall::axes(Ints values, int64_t rank) {
  for (int64_t& v : values) v = axis(v, rank);
  return values;
}

Sizes RaiseCall::sizes(const Value* v) const {
  Sizes out;
  for (const Dim& d : v->shape()) out.push_back(d.value());
  return out;
}

Value* RaiseCall::scalar(const Value* like, double value) {
  return like == nullptr ? nullptr : b.scalar(like->dtype(), value);
}

Result<std::unique_ptr<Graph>> raise_program(const mil::Package& package) {
  const mil::Model& model = package.model;
  if (!model.states.empty()) return unsupported("a model with states");
  const mil::Function* function = &model.program[0];
  for (const mil::Function& f : model.program) {
    if (f.name == "main" && model.default_function.empty()) function = &f;
    if (f.name == model.default_function) function = &f;
  }
  const std::vector<mil::Feature>* inputs = &model.inputs;
  for (const mil::FunctionDescription& f : model.functions) {
    if (f.name == function->name) inputs = &f.inputs;
  }
  return Raiser(package, *function, *inputs).run();
}

}  // namespace downhaul::coreml

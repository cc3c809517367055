#include "models/net.h"

#include <algorithm>

#include "base/strings.h"

namespace downhaul::models {
namespace {

Value* gelu(Net& net, Value* x) { return net.op(ops::kGelu, {x}); }
Value* gelu_tanh(Net& net, Value* x) {
  return net.op(ops::kGelu, {x}, {{"approximate", std::string("tanh")}});
}
Value* relu(Net& net, Value* x) { return net.relu(x); }
Value* silu(Net& net, Value* x) { return net.op(ops::kSilu, {x}); }
Value* tanh(Net& net, Value* x) { return net.op(ops::kTanh, {x}); }
Value* quick_gelu(Net& net, Value* x) {
  Value* scaled = net.mul(x, net.scalar(DType::kF32, 1.702));
  return net.mul(x, net.op(ops::kSigmoid, {scaled}));
}

struct ActivationRow {
  std::string_view name;
  Value* (*build)(Net& net, Value* x);
};
// As configurations name them; the three tanh forms differ in rounding only.
constexpr ActivationRow kActivations[] = {{"gelu", gelu},
                                          {"gelu_new", gelu_tanh},
                                          {"gelu_pytorch_tanh", gelu_tanh},
                                          {"gelu_fast", gelu_tanh},
                                          {"quick_gelu", quick_gelu},
                                          {"relu", relu},
                                          {"silu", silu},
                                          {"swish", silu},
                                          {"tanh", tanh}};

}  // namespace

Status Net::status() const {
  DH_TRY(weights_.problems());
  return b_.status();
}

Value* Net::op(const OpDef& op, std::vector<Value*> operands, const NamedAttrs& attrs) {
  if (!ok()) return nullptr;
  const std::string base(op.name);
  const int n = counts_[base]++;
  const std::string name = n == 0 ? base : cat(base, "_", n);
  graph_.origins.push_back({name, module_});
  b_.set_origins({static_cast<int>(graph_.origins.size()) - 1});
  return b_.op(op, std::move(operands), attrs, name);
}

void Net::enter_layer(const std::string& module) {
  constexpr std::string_view kWeight = ".weight";
  std::string stored = weights_.stored_name(cat(module, kWeight));
  if (stored.ends_with(kWeight)) stored.resize(stored.size() - kWeight.size());
  enter(std::move(stored));
}

Value* Net::weight(const std::string& name, const Extents& extents) {
  const Tensor tensor = weights_.take(name, extents);
  return constant(tensor, name);
}

Value* Net::constant(const Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) missing_ = true;
  if (!ok()) return nullptr;
  // Tied weights are one constant, as they are one block of bytes.
  Value*& known = constants_[{tensor.storage().get(), tensor.byte_offset(), tensor.sizes()}];
  if (known == nullptr) known = b_.constant(tensor, weights_.stored_name(name));
  return known;
}

Value* Net::linear(Value* x, const std::string& module, const Extent& in, const Extent& out,
                   bool bias) {
  Value* w = weight(module + ".weight", {out, in});
  Value* c = bias ? weight(module + ".bias", {out}) : nullptr;
  enter_layer(module);
  return op(ops::kLinear, {x, w, c});
}

Value* Net::linear_transposed(Value* x, const std::string& module, const Extent& in,
                              const Extent& out) {
  Value* w = weight(module + ".weight", {in, out});
  Value* c = weight(module + ".bias", {out});
  enter_layer(module);
  return op(ops::kLinear, {x, w, c}, {{"weight_transposed", true}});
}

Value* Net::layer_norm(Value* x, const std::string& module, const Extent& dim, double eps) {
  Value* w = weight(module + ".weight", {dim});
  Value* c = weight(module + ".bias", {dim});
  enter_layer(module);
  return op(ops::kLayerNorm, {x, w, c}, {{"normalized_shape", Ints{dim.size}}, {"eps", eps}});
}

Value* Net::reshape(Value* x, Dims shape) {
  return op(ops::kReshape, {x}, {{"shape", std::move(shape)}});
}

Value* Net::permute(Value* x, Ints dims) {
  return op(ops::kPermute, {x}, {{"dims", std::move(dims)}});
}

Value* Net::slice(Value* x, int64_t dim, Dim begin, Dim end) {
  return op(ops::kSlice, {x}, {{"dim", dim}, {"start", std::move(begin)}, {"end", std::move(end)}});
}

Value* Net::select(Value* x, int64_t dim, const Dim& index) {
  Value* row = slice(x, dim, index, index + Dim(1));
  if (row == nullptr) return nullptr;
  Dims shape = row->shape();
  shape.erase(shape.begin() + dim);
  return reshape(row, std::move(shape));
}

Value* Net::add(Value* a, Value* b) { return op(ops::kAdd, {a, b}); }
Value* Net::mul(Value* a, Value* b) { return op(ops::kMul, {a, b}); }
Value* Net::cast(Value* x, DType dtype) { return op(ops::kCast, {x}, {{"dtype", dtype}}); }
Value* Net::relu(Value* x) { return op(ops::kClamp, {x}, {{"min", 0.0}}); }

Value* Net::activation(Value* x, std::string_view name) {
  for (const ActivationRow& row : kActivations) {
    if (row.name == name) return row.build(*this, x);
  }
  DH_CHECK(false);
  return nullptr;
}

std::string checked_activation(Config& config, std::string_view key,
                               std::string_view default_value) {
  std::string name = config.text(key, default_value);
  std::vector<std::string_view> known;
  for (const ActivationRow& row : kActivations) {
    if (row.name == name) return name;
    known.push_back(row.name);
  }
  config.fail(cat("key '", key, "': expected one of ", join(known, ", "), "; found '",
                  printable(name, 60), "'"));
  return std::string(default_value);
}

}  // namespace downhaul::models

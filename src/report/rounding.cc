#include "report/rounding.h"

#include <algorithm>
#include <cmath>

#include "ops/ops.h"

namespace downhaul {
namespace {

double elements_of(const Value& value) {
  double n = 1;
  for (const Dim& d : value.shape()) n *= static_cast<double>(d.max());
  return n;
}

/// Terms of the sums behind one element of the result.
double terms_of(const Node& node) {
  if (node.op().accuracy == Accuracy::kExact) return 0;
  const double results = std::max(1.0, elements_of(*node.result()));
  if (node.op().multiply_adds != nullptr) {
    return std::max(1.0, static_cast<double>(node.op().multiply_adds(node)) / results);
  }
  if (node.operands().empty() || node.operand(0) == nullptr) return 1;
  const Value& input = *node.operand(0);
  if (node.is(ops::kSoftmax) || node.is(ops::kLogSoftmax) || node.is(ops::kCumsum)) {
    if (input.rank() == 0) return 1;
    return static_cast<double>(input.dim(node.axis("dim", input.rank())).max());
  }
  if (node.is(ops::kLayerNorm)) {
    double n = 1;
    const int64_t dims = static_cast<int64_t>(node.ints("normalized_shape").size());
    for (int64_t d = input.rank() - dims; d < input.rank(); ++d) {
      n *= static_cast<double>(input.dim(d).max());
    }
    return std::max(1.0, n);
  }
  return std::max(1.0, elements_of(input) / results);
}

}  // namespace

double Rounding::unit_of(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 0x1p-11;
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

Rounding::Rounding(const Graph& graph) {
  const auto look = [&](const Value* value) {
    if (!is_float(value->dtype())) return;
    if (unit_of(value->dtype()) > unit_) {
      unit_ = unit_of(value->dtype());
      coarsest_ = value->dtype();
    }
  };
  for (const Value* input : graph.inputs()) look(input);
  for (const Value* constant : graph.constants()) look(constant);
  for (const auto& node : graph.nodes()) {
    double longest = 0;
    double layers = 0;
    for (const Value* operand : node->operands()) {
      if (operand == nullptr) continue;
      longest = std::max(longest, terms(operand));
      layers = std::max(layers, linear_layers(operand));
    }
    // Products of a program that was not raised yet are linear layers in the engine.
    if (node->is(ops::kLinear) || node->is(ops::kMatmul)) ++layers;
    // A conversion to fewer bits rounds, exact as its definition is.
    const bool narrows = node->is(ops::kCast) && is_float(node->result()->dtype()) &&
                         unit_of(node->result()->dtype()) > unit_of(node->operand(0)->dtype());
    const double here = longest + (narrows ? 1 : terms_of(*node));
    for (int r = 0; r < node->num_results(); ++r) {
      look(node->result(r));
      terms_[node->result(r)] = here;
      layers_[node->result(r)] = layers;
    }
  }
  // The kernels may keep sums in f32 whatever they are given.
  if (unit_ < 0x1p-24) {
    unit_ = 0x1p-24;
    coarsest_ = DType::kF32;
  }
}

double Rounding::terms(const Value* value) const {
  const auto it = terms_.find(value);
  return it == terms_.end() ? 0 : it->second;
}

double Rounding::linear_layers(const Value* value) const {
  const auto it = layers_.find(value);
  return it == layers_.end() ? 0 : it->second;
}

double Rounding::bf16_tolerance(const Value* value) const {
  return 2 * unit_of(DType::kBF16) * std::sqrt(linear_layers(value));
}

double Rounding::tolerance(const Value* value, double unit) const {
  return 16 * std::max(unit, unit_) * std::sqrt(terms(value));
}

}  // namespace downhaul

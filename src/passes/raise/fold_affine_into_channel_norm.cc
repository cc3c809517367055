// channel_norm(x) · γ and + β, one number per channel → its weight and bias, in any order: programs
// for the Neural Engine add before they multiply.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  const bool is_mul = node.is(ops::kMul);
  if (!is_mul && !node.is(ops::kAdd)) return {};
  Value* norm = node.operand(0);
  if (!is_op(norm, ops::kChannelNorm) || !norm->has_one_use() ||
      !(norm->type() == node.result()->type())) {
    return {};
  }
  const Node& source = *norm->producer();
  const auto by = per_channel(node.operand(1), norm->type(), 1);
  if (!by) return {};
  const auto part = [&](const char* name, double absent) -> std::optional<std::vector<double>> {
    const Value* v = source.operand(name);
    if (v == nullptr) return std::vector<double>(by->size(), absent);
    return per_channel(v, TensorType{v->dtype(), v->shape()}, 0);
  };
  auto weight = part("weight", 1);
  auto bias = part("bias", 0);
  if (!weight || !bias) return {};
  for (size_t c = 0; c < by->size(); ++c) {
    if (is_mul) {
      (*weight)[c] *= (*by)[c];
      (*bias)[c] *= (*by)[c];
    } else {
      (*bias)[c] += (*by)[c];
    }
  }
  const Sizes sizes = {static_cast<int64_t>(by->size())};
  const auto constant = [&](const std::vector<double>& values, const char* name) {
    return b.constant(from_doubles(norm->dtype(), sizes, values), name);
  };
  return {
      b.like(source, {source.operand(0), constant(*weight, "weight"), constant(*bias, "bias")})};
}

}  // namespace

const Rewrite kFoldAffineIntoChannelNorm = {
    .name = "fold_affine_into_channel_norm",
    .apply = apply,
};

}  // namespace downhaul::rewrites

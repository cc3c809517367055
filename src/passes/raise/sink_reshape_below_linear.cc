// linear(reshape(x, [rows, k])) → reshape(linear(x)) when the reshape only merges leading
// dimensions of x; then elementwise operators between two such layers follow, and the reshapes meet
// and vanish. Decomposed programs wrap every linear so.
#include <algorithm>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

/// True when `operand` is a reshape to a matrix that keeps the last dimension of a larger rank.
bool merges_leading(const Value* operand) {
  if (!is_op(operand, ops::kReshape) || operand->rank() != 2) return false;
  const Value* x = operand->producer()->operand(0);
  return x->rank() > 2 && x->dim(x->rank() - 1) == operand->dim(1);
}

bool is_unary(const Node& node) {
  static const OpDef* const kUnary[] = {
      &ops::kGelu, &ops::kTanh, &ops::kSigmoid,   &ops::kSilu,        &ops::kClamp,
      &ops::kCast, &ops::kErf,  &ops::kHardswish, &ops::kHardsigmoid, &ops::kExp,
      &ops::kNeg,  &ops::kElu,  &ops::kMish,      &ops::kLeakyRelu,   &ops::kSoftplus};
  return std::any_of(std::begin(kUnary), std::end(kUnary),
                     [&](const OpDef* op) { return node.is(*op); });
}

std::vector<Value*> apply(Node& node, Builder& b) {
  const bool is_linear = node.is(ops::kLinear);
  // Pointwise with a constant: a scalar, or one per column.
  const bool is_affine = node.is(ops::kAdd) || node.is(ops::kMul) || node.is(ops::kPow);
  if (!is_linear && !is_affine && !is_unary(node)) return {};
  if (!merges_leading(node.operand(0))) return {};
  if (is_affine && (!node.operand(1)->is_constant() || node.operand(1)->rank() > 1)) return {};
  std::vector<Value*> operands = node.operands();
  Value* x = node.operand(0)->producer()->operand(0);
  operands[0] = x;
  Value* value = b.like(node, operands);
  return {b.op(ops::kReshape, {value}, {{"shape", Dims(node.result()->shape())}})};
}

}  // namespace

const Rewrite kSinkReshapeBelowLinear = {
    .name = "sink_reshape_below_linear",
    .apply = apply,
};

}  // namespace downhaul::rewrites

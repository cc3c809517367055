// linear(reshape(x, [rows, k])) → reshape(linear(x)) when the reshape only merges leading
// dimensions of x; then elementwise operators between two such layers follow, and the reshapes meet
// and vanish. Decomposed programs wrap every linear so.
#include <algorithm>

#include "ops/ops.h"
#include "passes/elementwise.h"
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

/// True when every operand but the first is a number or one number per column.
bool is_pointwise(const Node& node) {
  return is_elementwise(node) &&
         std::all_of(node.operands().begin() + 1, node.operands().end(), [](const Value* other) {
           return other != nullptr && other->is_constant() && other->rank() <= 1;
         });
}

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!node.is(ops::kLinear) && !is_pointwise(node)) return {};
  if (!merges_leading(node.operand(0))) return {};
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

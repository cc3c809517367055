// x + 0, x - 0, x * 1, x / 1, x ** 1 → x, when the constant does not broadcast x to a larger shape.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder&) {
  double neutral = 0;
  if (node.is(ops::kMul) || node.is(ops::kDiv) || node.is(ops::kPow)) {
    neutral = 1;
  } else if (!node.is(ops::kAdd) && !node.is(ops::kSub)) {
    return {};
  }
  for (const int other : {1, 0}) {
    const auto value = splat_value(node.operand(other));
    if (value && *value == neutral) return {node.operand(1 - other)};
    if (!node.op().commutative) break;
  }
  return {};
}

}  // namespace

const Rewrite kRemoveNeutralOperand = {
    .name = "remove_neutral_operand",
    .apply = apply,
};

}  // namespace downhaul::rewrites

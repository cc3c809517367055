// where with a condition that is the same everywhere picks one side; where(not c, x, y) → where(c,
// y, x); where(c, x, x) → x.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* condition = node.operand("condition");
  const Shape& shape = node.result()->shape();
  const Value* source =
      is_op(condition, ops::kExpand) ? condition->producer()->operand(0) : condition;
  if (const auto value = splat_value(source)) {
    return {broadcast_to(b, node.operand(*value != 0 ? 1 : 2), shape)};
  }
  if (is_op(condition, ops::kLogicalNot)) {
    Value* inner = condition->producer()->operand(0);
    if (inner->dtype() == DType::kBool) {
      return {b.op(ops::kWhere, {inner, node.operand(2), node.operand(1)})};
    }
  }
  if (node.operand(1) == node.operand(2)) return {broadcast_to(b, node.operand(1), shape)};
  return {};
}

}  // namespace

const Rewrite kFoldWhere = {
    .name = "fold_where",
    .root = &ops::kWhere,
    .apply = apply,
};

}  // namespace downhaul::rewrites

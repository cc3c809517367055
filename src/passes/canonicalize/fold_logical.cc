// x and true → x, x and false → false, x or false → x, x or true → true, not not x → x (x bool);
// also when the constant is expanded, to a shape that may be dynamic.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

/// The value of a constant that may be expanded.
std::optional<double> splat_through_expand(const Value* value) {
  if (is_op(value, ops::kExpand)) value = value->producer()->operand(0);
  return splat_value(value);
}

std::vector<Value*> apply(Node& node, Builder& b) {
  if (node.is(ops::kLogicalNot)) {
    if (!is_op(node.operand(0), ops::kLogicalNot)) return {};
    Value* x = node.operand(0)->producer()->operand(0);
    if (x->dtype() != DType::kBool) return {};
    return {x};
  }
  const bool is_and = node.is(ops::kLogicalAnd);
  if (!is_and && !node.is(ops::kLogicalOr)) return {};
  for (const int i : {1, 0}) {
    const auto value = splat_through_expand(node.operand(i));
    Value* x = node.operand(1 - i);
    if (!value) continue;
    if ((*value != 0) != is_and) return {filled(b, node.result()->type(), is_and ? 0 : 1)};
    if (x->dtype() != DType::kBool) continue;
    return {broadcast_to(b, x, node.result()->shape())};
  }
  return {};
}

}  // namespace

const Rewrite kFoldLogical = {
    .name = "fold_logical",
    .apply = apply,
};

}  // namespace downhaul::rewrites

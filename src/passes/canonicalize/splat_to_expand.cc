// slice, reshape, permute, expand of an expanded scalar → that scalar expanded to the new shape.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!node.is(ops::kSlice) && !node.is(ops::kReshape) && !node.is(ops::kPermute)) return {};
  Value* value = node.operand(0);
  if (is_op(value, ops::kExpand)) {
    value = value->producer()->operand(0);
    if (value->type().shape.empty()) return {broadcast_to(b, value, node.result()->shape())};
    return {};
  }
  // A stored constant only when its new shape is dynamic; static ones fold to views.
  if (node.result()->type().is_static() || !splat_value(value)) return {};
  return {filled(b, node.result()->type(), *splat_value(value))};
}

}  // namespace

const Rewrite kSplatToExpand = {
    .name = "splat_to_expand",
    .apply = apply,
};

}  // namespace downhaul::rewrites

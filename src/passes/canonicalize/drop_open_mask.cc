// attention(…, mask) whose constant mask lets everything through (all true, or all zero) needs
// none.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* mask = node.operand("mask");
  if (mask == nullptr) return {};
  if (is_op(mask, ops::kExpand)) mask = mask->producer()->operand(0);
  const auto value = splat_value(mask);
  if (!value || *value != (mask->dtype() == DType::kBool ? 1 : 0)) return {};
  return {b.like(node, {node.operand(0), node.operand(1), node.operand(2), nullptr})};
}

}  // namespace

const Rewrite kDropOpenMask = {
    .name = "drop_open_mask",
    .root = &ops::kAttention,
    .apply = apply,
};

}  // namespace downhaul::rewrites

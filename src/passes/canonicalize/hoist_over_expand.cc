// unary(expand(x)) → expand(unary(x)): computed once per element, and the expand may vanish further
// on. Also embedding(table, expand(i)) → expand(embedding(table, i)), binary(expand(x), scalar
// constant), and an operator whose operands are all expanded in the same way.

#include "ops/ops.h"
#include "passes/elementwise.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

Value* over_embedding(Node& node, Builder& b) {
  if (!is_op(node.operand(1), ops::kExpand)) return nullptr;
  Value* source = node.operand(1)->producer()->operand(0);
  if (source->rank() != node.operand(1)->rank()) return nullptr;
  Value* rows = b.op(ops::kEmbedding, {node.operand(0), source});
  return broadcast_to(b, rows, node.result()->shape());
}

std::vector<Value*> apply(Node& node, Builder& b) {
  if (node.is(ops::kEmbedding)) {
    Value* value = over_embedding(node, b);
    return value == nullptr ? std::vector<Value*>{} : std::vector<Value*>{value};
  }
  if (!is_elementwise(node)) return {};
  std::vector<Value*> operands;
  const Shape* from = nullptr;
  bool any_expand = false;
  for (Value* operand : node.operands()) {
    if (splat_value(operand) && operand->rank() == 0) {
      operands.push_back(operand);
      continue;
    }
    if (!is_op(operand, ops::kExpand)) return {};
    any_expand = true;
    Value* source = operand->producer()->operand(0);
    if (!(operand->shape() == node.result()->shape())) return {};
    // A scalar source goes with any other.
    if (source->rank() > 0) {
      if (from != nullptr && !(*from == source->shape())) return {};
      from = &source->shape();
    }
    operands.push_back(source);
  }
  if (!any_expand) return {};
  Value* value = b.like(node, operands);
  if (value == nullptr) return {};
  return {broadcast_to(b, value, node.result()->shape())};
}

}  // namespace

const Rewrite kHoistOverExpand = {
    .name = "hoist_over_expand",
    .apply = apply,
};

}  // namespace downhaul::rewrites

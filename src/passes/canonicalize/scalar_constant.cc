// A constant operand of an elementwise operator whose elements are all equal becomes a scalar, and
// a constant of a commutative operator stands on the right: patterns then see numbers, and files
// hold one.
#include <algorithm>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

bool takes_scalars(const Node& node) {
  static const OpDef* const kBinary[] = {
      &ops::kAdd, &ops::kSub, &ops::kMul, &ops::kDiv, &ops::kPow, &ops::kMaximum, &ops::kMinimum,
      &ops::kEq,  &ops::kNe,  &ops::kLt,  &ops::kLe,  &ops::kGt,  &ops::kGe,      &ops::kWhere};
  return std::any_of(std::begin(kBinary), std::end(kBinary),
                     [&](const OpDef* op) { return node.is(*op); });
}

std::vector<Value*> apply(Node& node, Builder& b) {
  if (node.op().commutative && node.operands().size() == 2 && node.operand(0)->is_constant() &&
      !node.operand(1)->is_constant()) {
    return {b.like(node, {node.operand(1), node.operand(0)})};
  }
  if (!takes_scalars(node)) return {};
  const int count = static_cast<int>(node.operands().size());
  for (int i = 0; i < count; ++i) {
    Value* operand = node.operand(i);
    if (operand->rank() == 0 || !splat_value(operand)) continue;
    // Another operand must carry the shape; if none does, the type check refuses.
    std::vector<Value*> operands = node.operands();
    const Tensor& t = operand->constant();
    operands[static_cast<size_t>(i)] =
        b.constant(Tensor(t.dtype(), {}, t.storage(), t.byte_offset()));
    Value* value = b.like(node, operands);
    if (value != nullptr && value->type() == node.result()->type()) return {value};
  }
  return {};
}

}  // namespace

const Rewrite kScalarConstant = {
    .name = "scalar_constant",
    .apply = apply,
};

}  // namespace downhaul::rewrites

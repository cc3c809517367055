// softmax(reshape(x)) over the last dimension → reshape(softmax(x)) when the reshape keeps that
// dimension.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* operand = node.operand(0);
  if (!is_op(operand, ops::kReshape) || !operand->has_one_use()) return {};
  Value* x = operand->producer()->operand(0);
  if (node.axis("dim", operand->rank()) != operand->rank() - 1 || x->rank() <= operand->rank() ||
      !(x->dim(x->rank() - 1) == operand->dim(operand->rank() - 1))) {
    return {};
  }
  Value* value = b.op(ops::kSoftmax, {x}, {{"dim", x->rank() - 1}});
  return {b.op(ops::kReshape, {value}, {{"shape", Dims(node.result()->shape())}})};
}

}  // namespace

const Rewrite kLiftReshapeOverSoftmax = {
    .name = "lift_reshape_over_softmax",
    .root = &ops::kSoftmax,
    .apply = apply,
};

}  // namespace downhaul::rewrites

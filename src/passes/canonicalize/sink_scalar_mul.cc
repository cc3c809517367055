// permute, reshape, expand or slice of x * s → (that of x) * s, so that scales meet each other and
// what they scale. Only where x * s has no other use and the result is not larger.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

/// A reshape that merges leading dimensions to a matrix moves the other way: see
/// sink_reshape_below_linear.
bool merges_leading(const Node& node) {
  if (!node.is(ops::kReshape)) return false;
  const Value* x = node.operand(0);
  const Value* matrix = node.result();
  return matrix->rank() == 2 && x->rank() > 2 && x->dim(x->rank() - 1) == matrix->dim(1);
}

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!node.is(ops::kPermute) && !node.is(ops::kReshape) && !node.is(ops::kSlice)) return {};
  if (merges_leading(node)) return {};
  Value* product = node.operand(0);
  if (!is_op(product, ops::kMul) || !product->has_one_use()) return {};
  Value* x = product->producer()->operand(0);
  Value* s = product->producer()->operand(1);
  if (!splat_value(s) || s->rank() != 0) return {};
  return {b.op(ops::kMul, {b.like(node, {x}), s})};
}

}  // namespace

const Rewrite kSinkScalarMul = {
    .name = "sink_scalar_mul",
    .apply = apply,
};

}  // namespace downhaul::rewrites

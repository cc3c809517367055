// permute, reshape, expand or slice of x * s → (that of x) * s, so that scales meet each other and
// what they scale. Only where x * s has no other use and the result is not larger.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!node.is(ops::kPermute) && !node.is(ops::kReshape) && !node.is(ops::kSlice)) return {};
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

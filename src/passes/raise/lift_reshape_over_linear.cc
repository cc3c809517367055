// reshape(linear(reshape(x)), [d…, n]) → linear(reshape(x, [d…, k])): the second reshape only
// splits the rows, which the first may do as well. (When the first only merged rows, both vanish;
// see sink_reshape_below_linear.)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* product = node.operand(0);
  const Value* result = node.result();
  if (!is_op(product, ops::kLinear) || !product->has_one_use() || result->rank() < 2) return {};
  Node& linear = *product->producer();
  if (!is_op(linear.operand(0), ops::kReshape)) return {};
  if (!(result->dim(result->rank() - 1) == product->dim(product->rank() - 1))) return {};
  Dims shape = result->shape();
  shape.back() = linear.operand(0)->shape().back();
  Value* x = b.op(ops::kReshape, {linear.operand(0)->producer()->operand(0)}, {{"shape", shape}});
  return {b.like(linear, {x, linear.operand(1), linear.operand(2)})};
}

}  // namespace

const Rewrite kLiftReshapeOverLinear = {
    .name = "lift_reshape_over_linear",
    .root = &ops::kReshape,
    .apply = apply,
};

}  // namespace downhaul::rewrites

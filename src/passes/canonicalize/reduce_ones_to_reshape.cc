// mean, sum, amax, amin over dimensions of size 1 only drop or keep these: a reshape. The same for
// an average pool that pools nothing.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (node.is(ops::kAdaptiveAvgPool2d)) {
    if (node.operand(0)->type() == node.result()->type()) return {node.operand(0)};
    return {};
  }
  if (!node.is(ops::kMean) && !node.is(ops::kSum) && !node.is(ops::kAmax) && !node.is(ops::kAmin)) {
    return {};
  }
  for (const int64_t d : node.ints("dims")) {
    if (!(node.operand(0)->dim(d) == Dim(1))) return {};
  }
  if (node.operand(0)->dtype() != node.result()->dtype()) return {};
  return {b.op(ops::kReshape, {node.operand(0)}, {{"shape", Dims(node.result()->shape())}})};
}

}  // namespace

const Rewrite kReduceOnesToReshape = {
    .name = "reduce_ones_to_reshape",
    .apply = apply,
};

}  // namespace downhaul::rewrites

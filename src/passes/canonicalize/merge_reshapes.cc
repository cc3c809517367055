// reshape(reshape(x)) → reshape(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!is_op(node.operand(0), ops::kReshape)) return {};
  return {b.like(node, {node.operand(0)->producer()->operand(0)})};
}

}  // namespace

const Rewrite kMergeReshapes = {
    .name = "merge_reshapes",
    .root = &ops::kReshape,
    .apply = apply,
};

}  // namespace downhaul::rewrites

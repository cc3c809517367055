// expand(expand(x)) → expand(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!is_op(node.operand(0), ops::kExpand)) return {};
  return {b.like(node, {node.operand(0)->producer()->operand(0)})};
}

}  // namespace

const Rewrite kMergeExpands = {
    .name = "merge_expands",
    .root = &ops::kExpand,
    .apply = apply,
};

}  // namespace downhaul::rewrites

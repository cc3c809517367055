// gather, index or index_select from a tensor whose elements are all equal → that value, whatever
// the index: token types that are zero for every position. (An index out of range is no error any
// more.)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!node.is(ops::kGather) && !node.is(ops::kIndex) && !node.is(ops::kIndexSelect)) return {};
  const Value* source = node.operand(0);
  if (is_op(source, ops::kExpand)) source = source->producer()->operand(0);
  const auto value = splat_value(source);
  if (!value || node.operand(0)->shape().empty()) return {};
  // From an empty tensor nothing can be taken.
  for (const Dim& dim : node.operand(0)->shape()) {
    if (dim.min() < 1) return {};
  }
  return {filled(b, node.result()->type(), *value)};
}

}  // namespace

const Rewrite kGatherOfSplat = {
    .name = "gather_of_splat",
    .apply = apply,
};

}  // namespace downhaul::rewrites

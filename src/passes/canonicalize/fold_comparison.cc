// arange(k, …) ≥ c with c ≤ k is true everywhere, < c false: the sequence is never shorter than its
// first element says. Works where the length is dynamic and unbounded; bounded ones fold by
// evaluation.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  const bool at_least = node.is(ops::kGe);
  if (!at_least && !node.is(ops::kLt)) return {};
  const auto bound = splat_value(node.operand(1));
  if (!bound || !(node.operand(0)->shape() == node.result()->shape())) return {};
  const auto range = match_range(node.operand(0));
  if (!range || static_cast<double>(range->start.min()) < *bound) return {};
  return {filled(b, node.result()->type(), at_least ? 1 : 0)};
}

}  // namespace

const Rewrite kFoldComparison = {
    .name = "fold_comparison",
    .apply = apply,
};

}  // namespace downhaul::rewrites

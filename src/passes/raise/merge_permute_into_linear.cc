// linear(x, permute(w, [1, 0])) → linear(x, w) with the weight read the other way round: no weight
// is transposed, neither now nor at run time.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* w = node.operand("weight");
  if (!is_op(w, ops::kPermute) || w->producer()->ints("dims") != Ints{1, 0}) return {};
  return {b.like(node, {node.operand(0), w->producer()->operand(0), node.operand(2)},
                 {{"weight_transposed", !node.b("weight_transposed")}})};
}

}  // namespace

const Rewrite kMergePermuteIntoLinear = {
    .name = "merge_permute_into_linear",
    .root = &ops::kLinear,
    .apply = apply,
};

}  // namespace downhaul::rewrites

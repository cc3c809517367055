// slice(permute(x)) → permute(slice(x)) when only slices read the permuted value: packed query, key
// and value come apart before they are permuted, and what the permutes then move is often of
// size 1.
#include <algorithm>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* permuted = node.operand(0);
  if (!is_op(permuted, ops::kPermute) || !only_sliced(permuted)) return {};
  const Node& permute = *permuted->producer();
  const int64_t axis =
      permute.ints("dims")[static_cast<size_t>(node.axis("dim", permuted->rank()))];
  return {b.like(permute, {b.like(node, {permute.operand(0)}, {{"dim", axis}})})};
}

}  // namespace

const Rewrite kSliceBeforePermute = {
    .name = "slice_before_permute",
    .root = &ops::kSlice,
    .apply = apply,
};

}  // namespace downhaul::rewrites

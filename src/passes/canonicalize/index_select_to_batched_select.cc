// index_select of a single row of the only batch → batched_select: rows that are picked before they
// are computed are picked so.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* x = node.operand(0);
  Value* index = node.operand(1);
  if (x->rank() < 2 || !(x->dim(0) == Dim(1)) || node.axis("dim", x->rank()) != 1 ||
      index->rank() != 1 || !(index->dim(0) == Dim(1)) || index->is_constant()) {
    return {};
  }
  return {b.op(ops::kBatchedSelect, {x, index})};
}

}  // namespace

const Rewrite kIndexSelectToBatchedSelect = {
    .name = "index_select_to_batched_select",
    .root = &ops::kIndexSelect,
    .apply = apply,
};

}  // namespace downhaul::rewrites

// x[arange(B), where] → batched_select: one row of each batch. Other dimensions are taken whole.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  const std::vector<Value*> indices = node.list();
  Value* x = node.operand("self");
  if (indices.size() < 2 || indices[0] == nullptr || indices[1] == nullptr || x->rank() < 2) {
    return {};
  }
  for (size_t i = 2; i < indices.size(); ++i) {
    if (indices[i] != nullptr) return {};
  }
  const auto rows = match_range(indices[0]);
  Value* where = indices[1];
  if (!rows || !(rows->start == Dim(0)) || !(rows->length == x->dim(0))) return {};
  if (indices[0]->rank() != 1 || where->rank() != 1 || !(where->dim(0) == x->dim(0))) return {};
  Value* selected = b.op(ops::kBatchedSelect, {x, where});
  return {b.op(ops::kReshape, {selected}, {{"shape", Dims(node.result()->shape())}})};
}

}  // namespace

const Rewrite kIndexToBatchedSelect = {
    .name = "index_to_batched_select",
    .root = &ops::kIndex,
    .apply = apply,
};

}  // namespace downhaul::rewrites

// embedding(table, [k, k+1, …]) → slice(table, k …): rows that follow each other are a view of the
// table (position embeddings). With a constant table this never reads it.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  const auto range = match_range(node.operand("indices"));
  Value* table = node.operand("weight");
  if (!range) return {};
  // Outside of the table, the embedding is an error and must stay one.
  const Dim end = range->start + range->length;
  if (range->start.min() < 0 || !table->dim(0).is_static() || end.max() > table->dim(0).value()) {
    return {};
  }
  Value* rows =
      b.op(ops::kSlice, {table}, {{"dim", int64_t{0}}, {"start", range->start}, {"end", end}});
  return {b.op(ops::kReshape, {rows}, {{"shape", Dims(node.result()->shape())}})};
}

}  // namespace

const Rewrite kEmbeddingToSlice = {
    .name = "embedding_to_slice",
    .root = &ops::kEmbedding,
    .apply = apply,
};

}  // namespace downhaul::rewrites

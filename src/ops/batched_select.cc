#include <algorithm>

#include "ops/axes.h"
#include "ops/indices.h"
#include "ops/infer.h"
#include "ops/ops.h"

namespace downhaul::ops {

namespace {

TypesResult infer_batched_select(const Node& node) {
  DH_TRY(require_min_rank(node, "self", 2));
  const TensorType& self = node.type("self");
  DH_TRY(require_index_dtype("index", node.type("index")));
  DH_TRY(require_shape(node, "index", {self.shape[0]}));
  Shape shape = self.shape;
  shape[1] = Dim(1);
  return one_type(self.dtype, std::move(shape));
}

AxisMap batched_select_axes(const Node& node) {
  const int64_t rows = 1;
  AxisMap map = same_except(node, std::span(&rows, 1));
  map_axis_always(map, 1, 0, 0);
  return map;
}

Status batched_select(RefCall& call) {
  const Tensor& self = call.in("self");
  DH_ASSIGN(const std::vector<int64_t> rows,
            checked_indices(call.in("index"), self.size(1), NegativeIndex::kFromEnd));
  const size_t batch = self.num_bytes() / rows.size();
  const size_t row = batch / static_cast<size_t>(self.size(1));
  auto* to = call.out().mutable_data<uint8_t>();
  for (size_t b = 0; b < rows.size(); ++b) {
    const uint8_t* from = self.bytes().data() + b * batch + static_cast<size_t>(rows[b]) * row;
    to = std::copy_n(from, row, to);
  }
  return {};
}

}  // namespace

// batched_select: one row of each batch element, result[b, 0, …] = self[b, index[b], …].
//   self  [B, S, ...] any dtype   index  i32 or i64 [B], negative from the end   result [B, 1, ...]
// Errors: kInvalidGraph for ranks, sizes and dtypes; evaluating an index outside [-S, S).
// Source: self[arange(B), index] of a model that reads one token per sequence.
const OpDef kBatchedSelect = {
    .name = "batched_select",
    .schema = "batched_select(Tensor self, Tensor index) -> Tensor",
    .infer = infer_batched_select,
    .axes = batched_select_axes,
    .reference = batched_select,
};

}  // namespace downhaul::ops

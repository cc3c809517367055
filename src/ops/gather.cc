#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/indices.h"
#include "ops/infer.h"
#include "ops/ops.h"

namespace downhaul::ops {

namespace {

TypesResult infer_gather(const Node& node) {
  const TensorType& self = node.type("self");
  const TensorType& index = node.type("index");
  DH_TRY(require_index_dtype("index", index));
  DH_TRY(require_rank(node, "index", self.rank()));
  DH_TRY(require_axis(node, "dim", self.rank()));
  const auto axis = static_cast<size_t>(node.axis("dim", self.rank()));
  for (size_t d = 0; d < self.shape.size(); ++d) {
    if (d != axis && always_greater(index.shape[d], self.shape[d])) {
      return invalid_graph(cat("index: expected at most ", self.shape[d].str(),
                               " elements in dimension ", d, ", found ", index.str()));
    }
  }
  return one_type(self.dtype, index.shape);
}

/// Along `dim` each index is looked up on its own. Elsewhere index and self go together, unless
/// index is the shorter one: then where it stands matters.
AxisMap gather_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const int64_t rank = node.result()->rank();
  const int64_t axis = node.axis("dim", rank);
  for (int64_t d = 0; d < rank; ++d) {
    if (d == axis) {
      map_axis_always(map, 1, d, d);
    } else if (node.operand(0)->dim(d) == node.operand(1)->dim(d)) {
      map_axis_always(map, 0, d, d);
      map_axis_always(map, 1, d, d);
    }
  }
  return map;
}

template <typename T>
Status gather(RefCall& call) {
  const Tensor& self = call.in("self");
  const Tensor& index = call.in("index");
  const auto axis = static_cast<size_t>(call.node.axis("dim", self.rank()));
  const Sizes& sizes = index.sizes();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (d != axis && sizes[d] > self.sizes()[d]) {
      return invalid_argument(cat("index: expected at most ", self.sizes()[d],
                                  " elements in dimension ", d, ", found ", describe(index)));
    }
  }
  DH_ASSIGN(const std::vector<int64_t> positions,
            checked_indices(index, self.sizes()[axis], NegativeIndex::kError));
  const std::vector<int64_t> strides = contiguous_strides(self.sizes());
  const T* from = self.data<T>();
  T* out = call.out().mutable_data<T>();
  std::vector<int64_t> at(sizes.size(), 0);
  for (const int64_t position : positions) {
    int64_t offset = position * strides[axis];
    for (size_t d = 0; d < at.size(); ++d) {
      if (d != axis) offset += at[d] * strides[d];
    }
    *out++ = from[offset];
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
  return {};
}

}  // namespace

// gather: result[i, j, k] = self[i, index[i, j, k], k] for dim = 1, and alike for other dims.
//   self   any dtype, rank >= 1
//   index  i32 or i64, same rank, no larger than self in the other dimensions
//   result shape of index, dtype of self
// Errors: kInvalidGraph for ranks, sizes and dtypes; evaluating an index outside [0, size).
// Source: aten::gather.
const OpDef kGather = {
    .name = "gather",
    .schema = "gather(Tensor self, Tensor index, int dim) -> Tensor",
    .infer = infer_gather,
    .axes = gather_axes,
    .reference =
        [](RefCall& call) {
          return for_item_size(call, call.in(0).dtype(),
                               []<typename T>(RefCall& c) { return gather<T>(c); });
        },
};

}  // namespace downhaul::ops

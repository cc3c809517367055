#include <algorithm>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/indices.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

// Rows picked by an index tensor of any shape, out of range an error.
namespace downhaul::ops {

namespace {

TypesResult infer_embedding(const Node& node) {
  DH_TRY(require_rank(node, "weight", 2));
  DH_TRY(require_index_dtype("indices", node.type("indices")));
  Shape shape = node.type("indices").shape;
  shape.push_back(node.type("weight").shape[1]);
  return one_type(node.type("weight").dtype, std::move(shape));
}

AxisMap embedding_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const int64_t rank = node.operand(1)->rank();
  map_axis_always(map, 0, 1, rank);
  for (int64_t d = 0; d < rank; ++d) map_axis_always(map, 1, d, d);
  return map;
}

TypesResult infer_index_select(const Node& node) {
  const TensorType& self = node.type("self");
  DH_TRY(require_rank(node, "index", 1));
  DH_TRY(require_index_dtype("index", node.type("index")));
  DH_TRY(require_axis(node, "dim", self.rank()));
  Shape shape = self.shape;
  shape[static_cast<size_t>(node.axis("dim", self.rank()))] = node.type("index").shape[0];
  return one_type(self.dtype, std::move(shape));
}

AxisMap index_select_axes(const Node& node) {
  AxisMap map = same_except_axis(node, "dim");
  map_axis_always(map, 1, 0, node.axis("dim", node.operand(0)->rank()));
  return map;
}

/// Replaces dimension `axis` of self by the positions that `index` names.
Status take(const Tensor& self, const Tensor& index, int64_t axis, Tensor& out) {
  DH_ASSIGN(std::vector<int64_t> rows,
            checked_indices(index, self.size(axis), NegativeIndex::kError));
  size_t outer = 1;
  for (int64_t d = 0; d < axis; ++d) outer *= static_cast<size_t>(self.size(d));
  const size_t block = self.num_bytes() / outer;
  const size_t row = block / static_cast<size_t>(self.size(axis));
  auto* to = out.mutable_data<uint8_t>();
  for (size_t o = 0; o < outer; ++o) {
    const uint8_t* from = self.bytes().data() + o * block;
    for (const int64_t i : rows) {
      to = std::copy_n(from + static_cast<size_t>(i) * row, row, to);
    }
  }
  return {};
}

}  // namespace

// embedding: row indices[i…] of weight for each index.
//   weight  [V, D] any dtype   indices  i32 or i64 [...]   result  [..., D], dtype of weight
// Errors: kInvalidGraph for ranks and dtypes; evaluating an index outside [0, V).
// Source: aten::embedding; padding_idx has no meaning at inference.
const OpDef kEmbedding = {
    .name = "embedding",
    .schema = "embedding(Tensor weight, Tensor indices) -> Tensor",
    .infer = infer_embedding,
    .axes = embedding_axes,
    .reference = [](RefCall& c) { return take(c.in(0), c.in(1), 0, c.out()); },
};

// index_select: dimension `dim` of self replaced by the positions that index names.
//   self  [.., S, ..] any dtype   index  i32 or i64 [K]   result  [.., K, ..]
// Errors: kInvalidGraph for ranks and dtypes; evaluating an index outside [0, S).
// Source: aten::index_select.
const OpDef kIndexSelect = {
    .name = "index_select",
    .schema = "index_select(Tensor self, Tensor index, int dim) -> Tensor",
    .infer = infer_index_select,
    .axes = index_select_axes,
    .reference =
        [](RefCall& c) {
          return take(c.in(0), c.in(1), c.node.axis("dim", c.in(0).rank()), c.out());
        },
};

}  // namespace downhaul::ops

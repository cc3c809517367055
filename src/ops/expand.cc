#include <algorithm>

#include "ops/axes.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

// Operators that repeat elements.
namespace downhaul::ops {

namespace {

TypesResult infer_expand(const Node& node) {
  DH_TRY(require_sizes(node, "size"));
  const TensorType& self = node.type("self");
  DH_TRY(require_broadcastable("self", self.shape, node.dims("size")));
  return one_type(self.dtype, node.dims("size"));
}

TypesResult infer_repeat(const Node& node) {
  const TensorType& self = node.type("self");
  const Ints& repeats = node.ints("repeats");
  DH_TRY(require_ints(node, "repeats", std::max(repeats.size(), self.shape.size()), 0));
  Shape shape;
  const size_t added = repeats.size() - self.shape.size();
  for (size_t i = 0; i < repeats.size(); ++i) {
    shape.push_back(Dim(repeats[i]) * (i < added ? Dim(1) : self.shape[i - added]));
  }
  return one_type(self.dtype, std::move(shape));
}

AxisMap repeat_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const Ints& repeats = node.ints("repeats");
  const auto added = static_cast<int64_t>(repeats.size()) - node.operand(0)->rank();
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d) {
    if (repeats[static_cast<size_t>(added + d)] == 1) map_axis_always(map, 0, d, added + d);
  }
  return map;
}

Status repeat(RefCall& call) {
  const Tensor& self = call.in("self");
  const Sizes& out = call.out().sizes();
  Sizes sizes(out.size() - self.sizes().size(), 1);
  sizes.insert(sizes.end(), self.sizes().begin(), self.sizes().end());
  IndexTables tables;
  for (size_t d = 0; d < out.size(); ++d) {
    std::vector<int64_t> table(static_cast<size_t>(out[d]));
    for (int64_t i = 0; i < out[d]; ++i) table[static_cast<size_t>(i)] = i % sizes[d];
    tables.push_back(std::move(table));
  }
  copy_by_tables(self.reshaped(std::move(sizes)), tables, nullptr, call.out());
  return {};
}

}  // namespace

// expand: self broadcast to `size` (dimensions of size 1 repeat, new ones are put in front). No -1.
// Errors: kInvalidGraph when self does not broadcast to size. Source: aten::expand.
const OpDef kExpand = {
    .name = "expand",
    .schema = "expand(Tensor self, dim[] size) -> Tensor",
    .infer = infer_expand,
    .axes = elementwise_axes,
    .reference = [](RefCall& call) -> Status {
      const Tensor& self = call.in("self");
      strided_copy(self, 0, broadcast_strides(self.sizes(), call.out().sizes()), call.out());
      return {};
    },
};

// repeat: self laid side by side repeats[d] times along each dimension; new ones go in front.
// Errors: kInvalidGraph for fewer entries than dimensions or negative ones. Source: aten::repeat.
const OpDef kRepeat = {
    .name = "repeat",
    .schema = "repeat(Tensor self, int[] repeats) -> Tensor",
    .infer = infer_repeat,
    .axes = repeat_axes,
    .reference = repeat,
};

}  // namespace downhaul::ops

#include <algorithm>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

namespace downhaul::ops {

namespace {

/// Checks dim, start, end and step, and gives the number of elements taken. Where symbols leave it
/// open whether the bounds hold, the check is left to the run.
Result<Dim> slice_size(const Node& node) {
  const TensorType& self = node.type("self");
  DH_TRY(require_axis(node, "dim", self.rank()));
  DH_TRY(require_int(node, "step", 1));
  const Dim size = self.shape[static_cast<size_t>(node.axis("dim", self.rank()))];
  const Dim& start = node.dim("start");
  const Dim& end = node.dim("end");
  if (start.max() < 0 || always_greater(start, end) || always_greater(end, size)) {
    return invalid_graph(cat("start, end: expected 0 <= start <= end <= ", size.str(), ", found ",
                             start.str(), " and ", end.str()));
  }
  return ceil_div(end - start, node.i("step"));
}

/// The checks of slice_size with the sizes of this run.
Status check_bounds(RefCall& call) {
  const Tensor& self = call.in("self");
  const int64_t size = self.size(call.node.axis("dim", self.rank()));
  const int64_t start = call.size("start");
  const int64_t end = call.size("end");
  if (start >= 0 && start <= end && end <= size) return {};
  return invalid_argument(
      cat("start, end: expected 0 <= start <= end <= ", size, ", found ", start, " and ", end));
}

TypesResult infer_slice(const Node& node) {
  DH_ASSIGN(const Dim size, slice_size(node));
  TensorType type = node.type("self");
  type.shape[static_cast<size_t>(node.axis("dim", type.rank()))] = size;
  return one_type(type);
}

TypesResult infer_slice_scatter(const Node& node) {
  DH_TRY(require_same_dtype(node, {"self", "src"}));
  DH_ASSIGN(const Dim size, slice_size(node));
  const TensorType& self = node.type("self");
  Shape expected = self.shape;
  expected[static_cast<size_t>(node.axis("dim", self.rank()))] = size;
  DH_TRY(require_shape(node, "src", expected));
  return one_type(self);
}

Status slice(RefCall& call) {
  DH_TRY(check_bounds(call));
  const Tensor& self = call.in("self");
  const auto axis = static_cast<size_t>(call.node.axis("dim", self.rank()));
  std::vector<int64_t> strides = contiguous_strides(self.sizes());
  const int64_t offset = call.size("start") * strides[axis];
  strides[axis] *= call.node.i("step");
  strided_copy(self, offset, std::move(strides), call.out());
  return {};
}

template <typename T>
Status slice_scatter(RefCall& call) {
  DH_TRY(check_bounds(call));
  const Tensor& self = call.in("self");
  const Tensor& src = call.in("src");
  const int64_t axis = call.node.axis("dim", self.rank());
  int64_t inner = 1;
  int64_t outer = 1;
  for (int64_t d = 0; d < axis; ++d) outer *= self.size(d);
  for (int64_t d = axis + 1; d < self.rank(); ++d) inner *= self.size(d);
  const int64_t start = call.size("start");
  const int64_t step = call.node.i("step");
  T* out = call.out().mutable_data<T>();
  const T* from = src.data<T>();
  std::copy_n(self.data<T>(), self.num_elements(), out);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < src.size(axis); ++i) {
      std::copy_n(from, inner, out + (o * self.size(axis) + start + i * step) * inner);
      from += inner;
    }
  }
  return {};
}

AxisMap slice_scatter_axes(const Node& node) {
  AxisMap map = same_except_axis(node, "dim");
  map.operand[1] = map.operand[0];
  return map;
}

}  // namespace

// slice: elements start, start + step, … below end of dimension `dim`; [ceil((end-start)/step)]
// there. Bounds are normalised: 0 <= start <= end <= size. select is slice and reshape. Errors:
// kInvalidGraph for bounds that are never right; evaluating bounds that are not right in this run.
// Source: aten::slice.Tensor.
const OpDef kSlice = {
    .name = "slice",
    .schema = "slice(Tensor self, int dim, dim start, dim end, int step=1) -> Tensor",
    .infer = infer_slice,
    .axes = [](const Node& node) { return same_except_axis(node, "dim"); },
    .reference = slice,
};

// slice_scatter: self with the elements that slice would take replaced by src, of slice's shape.
// Errors: as slice, and for another shape or dtype of src. Source: aten::slice_scatter.
const OpDef kSliceScatter = {
    .name = "slice_scatter",
    .schema =
        "slice_scatter(Tensor self, Tensor src, int dim, dim start, dim end, int step=1) "
        "-> Tensor",
    .infer = infer_slice_scatter,
    .axes = slice_scatter_axes,
    .reference =
        [](RefCall& call) {
          return for_item_size(call, call.in(0).dtype(),
                               []<typename T>(RefCall& c) { return slice_scatter<T>(c); });
        },
};

}  // namespace downhaul::ops

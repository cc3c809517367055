#include <algorithm>

#include "ops/axes.h"
#include "ops/cached.h"
#include "ops/dispatch.h"
#include "ops/indices.h"
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

/// Inference of read_rows and write_rows: `rows` of them at a place that only a run knows.
Status check_rows(const Node& node, const TensorType& self, const Dim& rows) {
  DH_TRY(require_axis(node, "dim", self.rank()));
  DH_TRY(require_index_dtype("start", node.type("start")));
  DH_TRY(require_shape(node, "start", {}));
  const Dim& size = self.shape[static_cast<size_t>(node.axis("dim", self.rank()))];
  if (rows.max() < 0 || always_greater(rows, size)) {
    return invalid_graph(cat("expected at most ", size.str(), " rows, found ", rows.str()));
  }
  return {};
}

TypesResult infer_read_rows(const Node& node) {
  TensorType type = node.type("self");
  DH_TRY(check_rows(node, type, node.dim("length")));
  if (node.dim("offset").max() < 0) {
    return invalid_graph(cat("offset: expected at least 0, found ", node.dim("offset").str()));
  }
  type.shape[static_cast<size_t>(node.axis("dim", type.rank()))] = node.dim("length");
  return one_type(type);
}

TypesResult infer_write_rows(const Node& node) {
  DH_TRY(require_same_dtype(node, {"self", "src"}));
  const TensorType& self = node.type("self");
  const TensorType& src = node.type("src");
  DH_TRY(require_axis(node, "dim", self.rank()));
  if (src.rank() != self.rank()) {
    return invalid_graph(cat("src: expected rank ", self.rank(), ", found ", src.str()));
  }
  const auto axis = static_cast<size_t>(node.axis("dim", self.rank()));
  DH_TRY(check_rows(node, self, src.shape[axis]));
  Shape expected = self.shape;
  expected[axis] = src.shape[axis];
  DH_TRY(require_shape(node, "src", expected));
  return one_type(self);
}

/// Both along the dimension: `rows` at `start`, in bytes.
struct RowPlace {
  int64_t outer = 1;
  size_t whole = 0, rows = 0, start = 0;  // bytes of the dimension, of the rows, before them
};
Result<RowPlace> place_of_rows(RefCall& call, int64_t rows, int64_t offset) {
  const Tensor& self = call.in("self");
  const int64_t axis = call.node.axis("dim", self.rank());
  DH_ASSIGN(const std::vector<int64_t> start,
            checked_indices(call.in("start"), self.size(axis) - offset - rows + 1,
                            NegativeIndex::kError));
  RowPlace place;
  auto inner = static_cast<size_t>(item_size(self.dtype()));
  for (int64_t d = 0; d < axis; ++d) place.outer *= self.size(d);
  for (int64_t d = axis + 1; d < self.rank(); ++d) inner *= static_cast<size_t>(self.size(d));
  place.whole = inner * static_cast<size_t>(self.size(axis));
  place.rows = inner * static_cast<size_t>(rows);
  place.start = inner * static_cast<size_t>(start[0] + offset);
  return place;
}

Status read_rows(RefCall& call) {
  DH_ASSIGN(const RowPlace p, place_of_rows(call, call.size("length"), call.size("offset")));
  const uint8_t* from = call.in("self").bytes().data() + p.start;
  auto* to = call.out().mutable_data<uint8_t>();
  for (int64_t o = 0; o < p.outer; ++o, from += p.whole) to = std::copy_n(from, p.rows, to);
  return {};
}

Status write_rows(RefCall& call) {
  const Tensor& self = call.in("self");
  const Tensor& src = call.in("src");
  const int64_t axis = call.node.axis("dim", self.rank());
  DH_ASSIGN(const RowPlace p, place_of_rows(call, src.size(axis), 0));
  auto* to = call.out().mutable_data<uint8_t>();
  std::copy_n(self.bytes().data(), self.num_bytes(), to);
  const uint8_t* from = src.bytes().data();
  for (int64_t o = 0; o < p.outer; ++o, from += p.rows, to += p.whole) {
    std::copy_n(from, p.rows, to + p.start);
  }
  return {};
}

AxisMap write_rows_axes(const Node& node) {
  AxisMap map = same_except_axis(node, "dim");
  map.operand[1] = map.operand[0];
  return map;
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

// read_rows: `length` elements of dimension `dim` from start + offset on; slice at a place that
// only the run knows. start  i32 or i64 []. Errors: kInvalidGraph for an axis, for more rows than
// there are; evaluating a start outside [0, size - offset - length].
const OpDef kReadRows = {
    .name = "read_rows",
    .schema = "read_rows(Tensor self, Tensor start, int dim, dim length, dim offset=0) -> Tensor",
    .infer = infer_read_rows,
    .axes = [](const Node& node) { return same_except_axis(node, "dim"); },
    .reference = read_rows,
};

// write_rows: self with src in place of its elements of dimension `dim` from `start` on;
// slice_scatter at a place that only the run knows. As the new content of the state that `self` is,
// it costs no copy of the rest. Errors: as read_rows; for another shape or dtype of src.
const OpDef kWriteRows = {
    .name = "write_rows",
    .schema = "write_rows(Tensor self, Tensor src, Tensor start, int dim) -> Tensor",
    .infer = infer_write_rows,
    .axes = write_rows_axes,
    .reference = write_rows,
};

}  // namespace downhaul::ops

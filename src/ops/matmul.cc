#include <utility>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/gemm.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

namespace downhaul::ops {

namespace {

/// Leading dimensions, and rows and columns after the transpose flag.
struct MatrixShape {
  Shape batch;
  Dim rows;
  Dim columns;
};

MatrixShape matrix_shape(const Node& node, std::string_view arg, std::string_view flag) {
  Shape batch = node.type(arg).shape;
  Dim columns = batch.back();
  batch.pop_back();
  Dim rows = batch.back();
  batch.pop_back();
  if (node.b(flag)) std::swap(rows, columns);
  return {std::move(batch), std::move(rows), std::move(columns)};
}

TypesResult infer_matmul(const Node& node) {
  DH_TRY(require_float(node, "self"));
  DH_TRY(require_same_dtype(node, {"self", "other"}));
  DH_TRY(require_min_rank(node, "self", 2));
  DH_TRY(require_min_rank(node, "other", 2));
  const MatrixShape a = matrix_shape(node, "self", "transpose_self");
  const MatrixShape b = matrix_shape(node, "other", "transpose_other");
  DH_TRY(require_dim("other", node.type("other").rank() - (node.b("transpose_other") ? 1 : 2),
                     b.rows, a.columns));
  DH_ASSIGN(Shape shape, broadcast_shapes("self", a.batch, "other", b.batch));
  shape.push_back(a.rows);
  shape.push_back(b.columns);
  return one_type(node.type("self").dtype, std::move(shape));
}

AxisMap matmul_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const int64_t rank = node.result()->rank();
  for (int o = 0; o < 2; ++o) {
    const int64_t own = node.operand(o)->rank();
    for (int64_t d = 0; d + 2 < own; ++d) map_axis(map, node, o, d, rank - own + d);
  }
  const int64_t rank_a = node.operand(0)->rank();
  const int64_t rank_b = node.operand(1)->rank();
  map_axis_always(map, 0, rank_a - (node.b("transpose_self") ? 1 : 2), rank - 2);
  map_axis_always(map, 1, rank_b - (node.b("transpose_other") ? 2 : 1), rank - 1);
  return map;
}

template <typename T>
Status matmul(RefCall& call) {
  const Tensor& a = call.in(0);
  const Tensor& b = call.in(1);
  const bool flip_a = call.node.b("transpose_self");
  const bool flip_b = call.node.b("transpose_other");
  const Sizes& out = call.out().sizes();
  const int64_t m = out[out.size() - 2];
  const int64_t n = out[out.size() - 1];
  const int64_t k = a.size(a.rank() - (flip_a ? 2 : 1));
  const StridedMatrix<T> first{a.data<T>(), flip_a ? 1 : k, flip_a ? m : 1};
  const StridedMatrix<T> second{b.data<T>(), flip_b ? 1 : n, flip_b ? k : 1};
  // Loops over the batch in units of whole matrices.
  const Sizes batch(out.begin(), out.end() - 2);
  const Sizes batch_a(a.sizes().begin(), a.sizes().end() - 2);
  const Sizes batch_b(b.sizes().begin(), b.sizes().end() - 2);
  const LoopNest loops =
      make_loops(batch, {broadcast_strides(batch_a, batch), broadcast_strides(batch_b, batch)});
  T* to = call.out().mutable_data<T>();
  for_each_row(loops, [&](int64_t result, const int64_t* from) {
    for (int64_t i = 0; i < loops.inner_size(); ++i) {
      StridedMatrix<T> x = first;
      StridedMatrix<T> y = second;
      x.data += (from[0] + i * loops.inner_stride(0)) * m * k;
      y.data += (from[1] + i * loops.inner_stride(1)) * k * n;
      gemm(m, n, k, x, y, to + (result + i) * m * n, n);
    }
  });
  return {};
}

int64_t matmul_multiply_adds(const Node& node) {
  const Sizes a = max_sizes(node.type("self").shape);
  const int64_t k = a[a.size() - (node.b("transpose_self") ? 2 : 1)];
  const int64_t results =
      checked_num_elements(max_sizes(node.result()->shape())).value_or(INT64_MAX);
  return count_multiply_adds(1, results, 1, k);
}

}  // namespace

// matmul: y = A · B for each matrix of the batch, A and B transposed by their flags.
//   self   float [..., m, k], or [..., k, m] when transpose_self
//   other  [..., k, n], or [..., n, k] when transpose_other; leading dimensions broadcast
//   result [..., m, n]
// Errors: kInvalidGraph for rank below 2, unequal dtypes or k. Sums in f32 (f64 for f64), gemm.h.
// Source: aten::matmul, bmm; vectors are reshaped to matrices by the reader.
const OpDef kMatmul = {
    .name = "matmul",
    .schema =
        "matmul(Tensor self, Tensor other, bool transpose_self=False, bool "
        "transpose_other=False) -> Tensor",
    .infer = infer_matmul,
    .axes = matmul_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return matmul<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
    .multiply_adds = matmul_multiply_adds,
};

}  // namespace downhaul::ops

#include <algorithm>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/gemm.h"
#include "ops/infer.h"
#include "ops/ops.h"

namespace downhaul::ops {

namespace {

TypesResult infer_linear(const Node& node) {
  DH_TRY(require_float(node, "input"));
  DH_TRY(require_same_dtype(node, {"input", "weight", "bias"}));
  DH_TRY(require_min_rank(node, "input", 1));
  DH_TRY(require_rank(node, "weight", 2));
  const TensorType& input = node.type("input");
  const Shape& weight = node.type("weight").shape;
  const size_t in_dim = node.b("weight_transposed") ? 0 : 1;
  DH_TRY(require_dim("weight", static_cast<int64_t>(in_dim), weight[in_dim], input.shape.back()));
  const Dim& out = weight[1 - in_dim];
  DH_TRY(require_shape(node, "bias", {out}));
  Shape shape = input.shape;
  shape.back() = out;
  return one_type(input.dtype, std::move(shape));
}

AxisMap linear_axes(const Node& node) {
  AxisMap map = same_except_last(node, 1);
  const int64_t last = node.result()->rank() - 1;
  map_axis_always(map, 1, node.b("weight_transposed") ? 1 : 0, last);
  if (node.operand(2) != nullptr) map_axis_always(map, 2, 0, last);
  return map;
}

template <typename T>
Status linear(RefCall& call) {
  const Tensor& input = call.in("input");
  const Tensor& weight = call.in("weight");
  const Tensor* bias = call.maybe("bias");
  const bool transposed = call.node.b("weight_transposed");
  const int64_t out_features = weight.size(transposed ? 1 : 0);
  const int64_t in_features = weight.size(transposed ? 0 : 1);
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < input.rank(); ++d) rows *= input.size(d);
  T* out = call.out().mutable_data<T>();
  if (bias != nullptr) {
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(bias->data<T>(), out_features, out + i * out_features);
    }
  }
  const int64_t row_stride = transposed ? out_features : 1;
  const int64_t column_stride = transposed ? 1 : in_features;
  gemm(rows, out_features, in_features, StridedMatrix<T>{input.data<T>(), in_features, 1},
       StridedMatrix<T>{weight.data<T>(), row_stride, column_stride}, out, out_features,
       bias != nullptr);
  return {};
}

int64_t linear_multiply_adds(const Node& node) {
  const Sizes weight = max_sizes(node.type("weight").shape);
  Shape rows = node.type("input").shape;
  rows.pop_back();
  const int64_t batch = checked_num_elements(max_sizes(rows)).value_or(INT64_MAX);
  return count_multiply_adds(1, batch, weight[0], weight[1]);
}

}  // namespace

// linear: y = x · Wᵀ + b over the last dimension; x · W + b when weight_transposed.
//   input   float [..., in]     weight  [out, in], or [in, out] when weight_transposed
//   bias    [out] or absent     result  [..., out], dtype of input
// Errors: kInvalidGraph for unequal dtypes or sizes. Sums in f32 (f64 for f64), see gemm.h.
// Source: aten::linear; aten::addmm and mm (weight_transposed).
const OpDef kLinear = {
    .name = "linear",
    .schema =
        "linear(Tensor input, Tensor weight, Tensor? bias=None, bool weight_transposed=False) "
        "-> Tensor",
    .infer = infer_linear,
    .axes = linear_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return linear<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
    .multiply_adds = linear_multiply_adds,
};

}  // namespace downhaul::ops

#include <cmath>
#include <vector>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/gemm.h"
#include "ops/infer.h"
#include "ops/ops.h"

// Sequences laid out as images, [batch, channels, 1, positions]: what devices want whose last
// dimension should be the long one.
namespace downhaul::ops {

namespace {

TypesResult infer_channel_norm(const Node& node) {
  DH_TRY(require_float(node, "input"));
  DH_TRY(require_min_rank(node, "input", 2));
  DH_TRY(require_same_dtype(node, {"input", "weight", "bias"}));
  const TensorType& input = node.type("input");
  for (const char* arg : {"weight", "bias"}) DH_TRY(require_shape(node, arg, {input.shape[1]}));
  return one_type(input);
}

template <typename T>
Status channel_norm(RefCall& call) {
  const Tensor& input = call.in("input");
  const Tensor* weight = call.maybe("weight");
  const Tensor* bias = call.maybe("bias");
  const double eps = call.node.f("eps");
  const int64_t channels = input.size(1);
  int64_t plane = 1;
  for (int64_t d = 2; d < input.rank(); ++d) plane *= input.size(d);
  const T* in = input.data<T>();
  T* out = call.out().mutable_data<T>();
  for (int64_t n = 0; n < input.size(0); ++n, in += channels * plane, out += channels * plane) {
    for (int64_t p = 0; p < plane; ++p) {
      double sum = 0;
      for (int64_t c = 0; c < channels; ++c) sum += static_cast<double>(in[c * plane + p]);
      const double mean = sum / static_cast<double>(channels);
      double squares = 0;
      for (int64_t c = 0; c < channels; ++c) {
        const double d = static_cast<double>(in[c * plane + p]) - mean;
        squares += d * d;
      }
      const double scale = 1 / std::sqrt(squares / static_cast<double>(channels) + eps);
      for (int64_t c = 0; c < channels; ++c) {
        const double w = weight == nullptr ? 1 : static_cast<double>(weight->data<T>()[c]);
        const double b = bias == nullptr ? 0 : static_cast<double>(bias->data<T>()[c]);
        const double z = static_cast<double>(in[c * plane + p]) - mean;
        out[c * plane + p] = static_cast<T>(z * scale * w + b);
      }
    }
  }
  return {};
}

TypesResult infer_channel_matmul(const Node& node) {
  DH_TRY(require_float(node, "self"));
  DH_TRY(require_same_dtype(node, {"self", "other"}));
  DH_TRY(require_rank(node, "self", 4));
  DH_TRY(require_rank(node, "other", 4));
  const TensorType& a = node.type("self");
  const TensorType& b = node.type("other");
  DH_TRY(require_dim("other", 0, b.shape[0], a.shape[0]));
  DH_TRY(require_dim("other", 1, b.shape[1], a.shape[3]));
  DH_TRY(require_dim("other", 2, b.shape[2], a.shape[2]));
  return one_type(a.dtype, {a.shape[0], a.shape[1], a.shape[2], b.shape[3]});
}

AxisMap channel_matmul_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  for (const int64_t d : {0, 2}) {
    map_axis_always(map, 0, d, d);
    map_axis_always(map, 1, d, d);
  }
  map_axis_always(map, 0, 1, 1);
  map_axis_always(map, 1, 3, 3);
  return map;
}

template <typename T>
Status channel_matmul(RefCall& call) {
  const Tensor& a = call.in(0);
  const Tensor& b = call.in(1);
  const int64_t m = a.size(1), rows = a.size(2), k = a.size(3), n = b.size(3);
  std::vector<T> product(static_cast<size_t>(m * n));
  T* out = call.out().mutable_data<T>();
  for (int64_t i = 0; i < a.size(0); ++i) {
    for (int64_t h = 0; h < rows; ++h) {
      const StridedMatrix<T> x{a.data<T>() + (i * m * rows + h) * k, rows * k, 1};
      const StridedMatrix<T> y{b.data<T>() + (i * k * rows + h) * n, rows * n, 1};
      gemm(m, n, k, x, y, product.data(), n);
      for (int64_t c = 0; c < m; ++c) {
        std::copy_n(product.data() + c * n, n, out + ((i * m + c) * rows + h) * n);
      }
    }
  }
  return {};
}

int64_t channel_matmul_multiply_adds(const Node& node) {
  const Sizes a = max_sizes(node.type("self").shape);
  const int64_t results =
      checked_num_elements(max_sizes(node.result()->shape())).value_or(INT64_MAX);
  return count_multiply_adds(1, results, 1, a[3]);
}

}  // namespace

// channel_norm: layer norm over the channels of each position.
//   input  float [N, C, ...]   weight, bias  [C] or absent (1 and 0)
// Statistics in f64. Errors: kInvalidGraph for dtypes and sizes. Source: MIL layer_norm, axes [1].
const OpDef kChannelNorm = {
    .name = "channel_norm",
    .schema =
        "channel_norm(Tensor input, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> "
        "Tensor",
    .infer = infer_channel_norm,
    .axes =
        [](const Node& node) {
          const int64_t channel[] = {1};
          return same_except(node, channel);
        },
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return channel_norm<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

// channel_matmul: result[n, c, h, u] = sum over w of self[n, c, h, w] · other[n, w, h, u].
//   self  float [N, C, H, W]   other  [N, W, H, U]   result [N, C, H, U]
// Errors: kInvalidGraph for ranks, dtypes, sizes. Sums as gemm.h. Source: MIL einsum
// "nchw,nwhu->nchu".
const OpDef kChannelMatmul = {
    .name = "channel_matmul",
    .schema = "channel_matmul(Tensor self, Tensor other) -> Tensor",
    .infer = infer_channel_matmul,
    .axes = channel_matmul_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return channel_matmul<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
    .multiply_adds = channel_matmul_multiply_adds,
};

}  // namespace downhaul::ops

#include <algorithm>
#include <vector>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/gemm.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"
#include "ops/window.h"

namespace downhaul::ops {

namespace {

/// (size - 1) · stride - before - after + dilation · (kernel - 1) + extra + 1.
Result<Dim> transposed_size(std::string_view what, const Dim& size, int64_t extent, int64_t stride,
                            int64_t before, int64_t after, int64_t extra) {
  const Dim out = (size - Dim(1)) * Dim(stride) + Dim(extent + extra - before - after);
  if (out.max() >= 1) return out;
  return invalid_graph(cat("padding: expected less than the ", what, " of the result, found ",
                           before, " and ", after));
}

TypesResult infer_conv_transpose2d(const Node& node) {
  DH_TRY(require_float(node, "input"));
  DH_TRY(require_same_dtype(node, {"input", "weight", "bias"}));
  DH_ASSIGN(const ImageShape input, image_shape(node, "input"));
  DH_TRY(require_rank(node, "weight", 4));
  DH_TRY(require_ints(node, "stride", 2, 1));
  DH_TRY(require_ints(node, "padding", 4, 0));
  DH_TRY(require_ints(node, "output_padding", 2, 0));
  DH_TRY(require_ints(node, "dilation", 2, 1));
  DH_TRY(require_int(node, "groups", 1));
  const TensorType& weight = node.type("weight");
  if (!weight.is_static()) {
    return invalid_graph(cat("weight: expected a static shape, found ", weight.str()));
  }
  const Sizes w = static_sizes(weight.shape);
  const int64_t groups = node.i("groups");
  DH_TRY(require_dim("weight", 0, weight.shape[0], input.channels));
  if (w[0] % groups != 0) {
    return invalid_graph(
        cat("groups: expected a divisor of the ", w[0], " input channels, found ", groups));
  }
  for (const size_t d : {2, 3}) {
    if (w[d] < 1 || w[d] >= int64_t{1} << 31) {
      return invalid_graph(cat("weight: expected a kernel of at least 1x1, found ", weight.str()));
    }
  }
  const Dim channels = weight.shape[1] * Dim(groups);
  DH_TRY(require_shape(node, "bias", {channels}));
  const Ints& stride = node.ints("stride");
  const Ints& padding = node.ints("padding");
  const Ints& dilation = node.ints("dilation");
  const Ints& extra = node.ints("output_padding");
  for (const size_t d : {0, 1}) {
    if (extra[d] >= std::max(stride[d], dilation[d])) {
      return invalid_graph(
          cat("output_padding: expected less than stride or dilation, found ", extra[d]));
    }
  }
  ImageShape out{input.batch, channels, 0, 0};
  DH_ASSIGN(out.height, transposed_size("height", input.height, dilation[0] * (w[2] - 1) + 1,
                                        stride[0], padding[0], padding[2], extra[0]));
  DH_ASSIGN(out.width, transposed_size("width", input.width, dilation[1] * (w[3] - 1) + 1,
                                       stride[1], padding[1], padding[3], extra[1]));
  return one_type(node.type("input").dtype, out.as(node.s("layout") == "nhwc"));
}

AxisMap conv_transpose2d_axes(const Node& node) {
  const int64_t channel = node.s("layout") == "nhwc" ? 3 : 1;
  AxisMap map = whole_axes(node);
  map_axis_always(map, 0, 0, 0);
  // With groups the position of an output channel decides which inputs it sees.
  if (node.i("groups") == 1) {
    map_axis_always(map, 1, 1, channel);
    if (node.operand(2) != nullptr) map_axis_always(map, 2, 0, channel);
  }
  return map;
}

/// One group of one image in NCHW.
struct TransposedConv {
  int64_t channels_in, height_in, width_in;
  int64_t channels_out, height_out, width_out;
  int64_t kernel_h, kernel_w, stride_h, stride_w, top, left, dilation_h, dilation_w;
};

/// What every input pixel gives to the pixel under one tap of its window: Wᵀ · input for that tap,
/// scattered into the result. Some pixels at a time, which bounds the products held.
template <typename T>
void scatter_tap(const TransposedConv& conv, int64_t kh, int64_t kw, const T* in, const T* weight,
                 T* out) {
  const int64_t taps = conv.kernel_h * conv.kernel_w;
  const int64_t pixels = conv.height_in * conv.width_in;
  constexpr int64_t kMaxProducts = int64_t{1} << 20;
  const int64_t block = std::clamp<int64_t>(kMaxProducts / conv.channels_out, 1, pixels);
  std::vector<T> products(static_cast<size_t>(conv.channels_out * block));
  const StridedMatrix<T> filter{weight + kh * conv.kernel_w + kw, taps, conv.channels_out * taps};
  for (int64_t p0 = 0; p0 < pixels; p0 += block) {
    const int64_t n = std::min(block, pixels - p0);
    gemm(conv.channels_out, n, conv.channels_in, filter, StridedMatrix<T>{in + p0, pixels, 1},
         products.data(), n);
    for (int64_t c = 0; c < conv.channels_out; ++c) {
      const T* from = products.data() + c * n;
      T* plane = out + c * conv.height_out * conv.width_out;
      for (int64_t p = 0; p < n; ++p) {
        const int64_t y =
            (p0 + p) / conv.width_in * conv.stride_h + kh * conv.dilation_h - conv.top;
        const int64_t x =
            (p0 + p) % conv.width_in * conv.stride_w + kw * conv.dilation_w - conv.left;
        if (y >= 0 && y < conv.height_out && x >= 0 && x < conv.width_out) {
          plane[y * conv.width_out + x] += from[p];
        }
      }
    }
  }
}

template <typename T>
Status conv_transpose2d(RefCall& call) {
  const Node& node = call.node;
  const bool nhwc = node.s("layout") == "nhwc";
  const Tensor input = to_nchw(call.in("input"), nhwc);
  const Tensor& weight = call.in("weight");
  const Tensor* bias = call.maybe("bias");
  const int64_t groups = node.i("groups");
  const Sizes& o = call.out().sizes();
  Tensor result(input.dtype(), nhwc ? Sizes{o[0], o[3], o[1], o[2]} : o);
  const TransposedConv conv{
      .channels_in = weight.size(0) / groups,
      .height_in = input.size(2),
      .width_in = input.size(3),
      .channels_out = weight.size(1),
      .height_out = result.size(2),
      .width_out = result.size(3),
      .kernel_h = weight.size(2),
      .kernel_w = weight.size(3),
      .stride_h = node.ints("stride")[0],
      .stride_w = node.ints("stride")[1],
      .top = node.ints("padding")[0],
      .left = node.ints("padding")[1],
      .dilation_h = node.ints("dilation")[0],
      .dilation_w = node.ints("dilation")[1],
  };
  const int64_t plane_in = conv.height_in * conv.width_in;
  const int64_t plane_out = conv.height_out * conv.width_out;
  const int64_t taps = conv.kernel_h * conv.kernel_w;
  T* out = result.mutable_data<T>();
  for (int64_t n = 0; n < input.size(0); ++n) {
    for (int64_t g = 0; g < groups; ++g) {
      const T* in = input.data<T>() + (n * groups + g) * conv.channels_in * plane_in;
      const T* filter = weight.data<T>() + g * conv.channels_in * conv.channels_out * taps;
      for (int64_t c = 0; bias != nullptr && c < conv.channels_out; ++c) {
        std::fill_n(out + c * plane_out, plane_out, bias->data<T>()[g * conv.channels_out + c]);
      }
      for (int64_t tap = 0; plane_in > 0 && tap < taps; ++tap) {
        scatter_tap(conv, tap / conv.kernel_w, tap % conv.kernel_w, in, filter, out);
      }
      out += conv.channels_out * plane_out;
    }
  }
  call.out() = from_nchw(result, nhwc);
  return {};
}

int64_t conv_transpose2d_multiply_adds(const Node& node) {
  const Sizes w = static_sizes(node.type("weight").shape);
  const int64_t inputs =
      checked_num_elements(max_sizes(node.type("input").shape)).value_or(INT64_MAX);
  return count_multiply_adds(inputs, w[1], w[2], w[3]);
}

}  // namespace

// conv_transpose2d: every input element times the kernel, added into the result at stride steps;
// the gradient of conv2d.
//   input   float [N, I, H, W] (layout "nchw") or [N, H, W, I] ("nhwc")
//   weight  [I, O/groups, kh, kw] in both layouts       bias  [O] or absent
//   padding [top, left, bottom, right] is cut off the result; output_padding added at bottom, right
//   result  H' = (H-1) stride - top - bottom + dilation (kh-1) + output_padding + 1
// Errors: kInvalidGraph for dtypes, channels, groups, output_padding not below stride or dilation.
// Sums in f32 (f64 for f64), see gemm.h. Source: aten::conv_transpose2d.input.
const OpDef kConvTranspose2d = {
    .name = "conv_transpose2d",
    .schema =
        "conv_transpose2d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1,1], "
        "int[] padding=[0,0,0,0], int[] output_padding=[0,0], int[] dilation=[1,1], int "
        "groups=1, str layout=\"nchw\") -> Tensor",
    .infer = infer_conv_transpose2d,
    .axes = conv_transpose2d_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return conv_transpose2d<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
    .multiply_adds = conv_transpose2d_multiply_adds,
};

}  // namespace downhaul::ops

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

TypesResult infer_conv2d(const Node& node) {
  DH_TRY(require_float(node, "input"));
  DH_TRY(require_same_dtype(node, {"input", "weight", "bias"}));
  DH_ASSIGN(const ImageShape input, image_shape(node, "input"));
  DH_TRY(require_rank(node, "weight", 4));
  DH_TRY(require_ints(node, "stride", 2, 1));
  DH_TRY(require_ints(node, "padding", 4, 0));
  DH_TRY(require_ints(node, "dilation", 2, 1));
  DH_TRY(require_int(node, "groups", 1));
  const TensorType& weight = node.type("weight");
  if (!weight.is_static()) {
    return invalid_graph(cat("weight: expected a static shape, found ", weight.str()));
  }
  const Sizes w = static_sizes(weight.shape);
  const int64_t groups = node.i("groups");
  if (!(Dim(w[1]) * Dim(groups) == input.channels)) {
    return invalid_graph(cat("weight: expected ", input.channels.str(), " input channels / ",
                             groups, " groups in dimension 1, found ", weight.str()));
  }
  if (w[0] % groups != 0) {
    return invalid_graph(
        cat("groups: expected a divisor of the ", w[0], " output channels, found ", groups));
  }
  DH_TRY(require_shape(node, "bias", {Dim(w[0])}));
  for (const size_t d : {2, 3}) {
    if (w[d] < 1 || w[d] >= int64_t{1} << 31) {
      return invalid_graph(cat("weight: expected a kernel of at least 1x1, found ", weight.str()));
    }
  }
  const Ints& stride = node.ints("stride");
  const Ints& padding = node.ints("padding");
  const Ints& dilation = node.ints("dilation");
  ImageShape out{input.batch, Dim(w[0]), 0, 0};
  DH_ASSIGN(out.height, window_count("weight height", input.height, dilation[0] * (w[2] - 1) + 1,
                                     stride[0], padding[0], padding[2], false));
  DH_ASSIGN(out.width, window_count("weight width", input.width, dilation[1] * (w[3] - 1) + 1,
                                    stride[1], padding[1], padding[3], false));
  return one_type(node.type("input").dtype, out.as(node.s("layout") == "nhwc"));
}

bool is_pointwise(const Node& node) {
  const Shape& w = node.type("weight").shape;
  const auto all = [&](std::string_view attr, int64_t v) {
    const Ints& a = node.ints(attr);
    return std::all_of(a.begin(), a.end(), [=](int64_t x) { return x == v; });
  };
  return w[2] == Dim(1) && w[3] == Dim(1) && all("stride", 1) && all("padding", 0);
}

AxisMap conv2d_axes(const Node& node) {
  const bool nhwc = node.s("layout") == "nhwc";
  const int64_t channel = nhwc ? 3 : 1;
  AxisMap map = whole_axes(node);
  map_axis_always(map, 0, 0, 0);
  if (is_pointwise(node)) {
    for (const int64_t d : {0, 1}) map_axis_always(map, 0, (nhwc ? 1 : 2) + d, (nhwc ? 1 : 2) + d);
  }
  // With groups the position of an output channel decides which inputs it sees.
  if (node.i("groups") == 1) {
    map_axis_always(map, 1, 0, channel);
    if (node.operand(2) != nullptr) map_axis_always(map, 2, 0, channel);
  }
  return map;
}

/// Elements of the unfolded input that are held at a time, when a row of results allows it.
constexpr int64_t kMaxUnfolded = int64_t{1} << 20;

/// One convolution in NCHW, all sizes as numbers.
struct Conv {
  int64_t channels_in, height_in, width_in;  // of one group
  int64_t channels_out, height_out, width_out;
  int64_t kernel_h, kernel_w, stride_h, stride_w, top, left, dilation_h, dilation_w;
};

/// Results [first, last) along one axis whose tap at `offset` (kernel position minus padding) lies
/// on the image.
struct Span {
  int64_t first, last;
};
Span valid_span(int64_t offset, int64_t stride, int64_t size_in, int64_t size_out) {
  const int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t last = size_in <= offset ? 0 : (size_in - offset - 1) / stride + 1;
  return {std::min(first, size_out), std::clamp(last, std::min(first, size_out), size_out)};
}

/// One channel: out += w * in for each tap of the kernel.
template <typename T>
void convolve_plane(const Conv& conv, const T* in, const T* weight, T* out) {
  for (int64_t kh = 0; kh < conv.kernel_h; ++kh) {
    const int64_t row_offset = kh * conv.dilation_h - conv.top;
    const Span rows = valid_span(row_offset, conv.stride_h, conv.height_in, conv.height_out);
    for (int64_t kw = 0; kw < conv.kernel_w; ++kw) {
      const int64_t column_offset = kw * conv.dilation_w - conv.left;
      const Span columns = valid_span(column_offset, conv.stride_w, conv.width_in, conv.width_out);
      const T w = weight[kh * conv.kernel_w + kw];
      for (int64_t y = rows.first; y < rows.last; ++y) {
        const T* from = in + (y * conv.stride_h + row_offset) * conv.width_in;
        T* to = out + y * conv.width_out;
        if (conv.stride_w == 1) {
          for (int64_t x = columns.first; x < columns.last; ++x) {
            to[x] += w * from[x + column_offset];
          }
        } else {
          for (int64_t x = columns.first; x < columns.last; ++x) {
            to[x] += w * from[x * conv.stride_w + column_offset];
          }
        }
      }
    }
  }
}

/// Rows y0 to y1 of the result as columns: out[(c, kh, kw), (y, x)] = the input element under that
/// tap, or 0 in the padding.
template <typename T>
void unfold(const Conv& conv, const T* in, int64_t y0, int64_t y1, T* out) {
  const int64_t width = conv.width_out;
  for (int64_t c = 0; c < conv.channels_in; ++c) {
    const T* plane = in + c * conv.height_in * conv.width_in;
    for (int64_t kh = 0; kh < conv.kernel_h; ++kh) {
      for (int64_t kw = 0; kw < conv.kernel_w; ++kw) {
        const int64_t column_offset = kw * conv.dilation_w - conv.left;
        const Span columns =
            valid_span(column_offset, conv.stride_w, conv.width_in, conv.width_out);
        for (int64_t y = y0; y < y1; ++y, out += width) {
          const int64_t row = y * conv.stride_h + kh * conv.dilation_h - conv.top;
          if (row < 0 || row >= conv.height_in) {
            std::fill_n(out, width, T(0));
            continue;
          }
          const T* from = plane + row * conv.width_in + column_offset;
          std::fill_n(out, columns.first, T(0));
          for (int64_t x = columns.first; x < columns.last; ++x) out[x] = from[x * conv.stride_w];
          std::fill(out + columns.last, out + width, T(0));
        }
      }
    }
  }
}

/// One group of one image as a matrix product over unfolded rows.
template <typename T>
void convolve_group(const Conv& conv, bool pointwise, const T* in, const T* weight, T* out,
                    std::vector<T>& columns) {
  const int64_t pixels = conv.height_out * conv.width_out;
  const int64_t k = conv.channels_in * conv.kernel_h * conv.kernel_w;
  const StridedMatrix<T> filter{weight, k, 1};
  if (pointwise) {
    gemm(conv.channels_out, pixels, k, filter, StridedMatrix<T>{in, pixels, 1}, out, pixels, true);
    return;
  }
  // A few rows at a time: the unfolded matrix would be kernel_h · kernel_w times the image.
  const int64_t band = std::clamp<int64_t>(kMaxUnfolded / std::max<int64_t>(1, k * conv.width_out),
                                           1, conv.height_out);
  columns.resize(static_cast<size_t>(k * band * conv.width_out));
  for (int64_t y0 = 0; y0 < conv.height_out; y0 += band) {
    const int64_t y1 = std::min(y0 + band, conv.height_out);
    const int64_t n = (y1 - y0) * conv.width_out;
    unfold(conv, in, y0, y1, columns.data());
    gemm(conv.channels_out, n, k, filter, StridedMatrix<T>{columns.data(), n, 1},
         out + y0 * conv.width_out, pixels, true);
  }
}

template <typename T>
Status conv2d(RefCall& call) {
  const Node& node = call.node;
  const bool nhwc = node.s("layout") == "nhwc";
  const Tensor input = to_nchw(call.in("input"), nhwc);
  const Tensor& weight = call.in("weight");
  const Tensor* bias = call.maybe("bias");
  const int64_t groups = node.i("groups");
  const Sizes& o = call.out().sizes();
  const Sizes sizes = nhwc ? Sizes{o[0], o[3], o[1], o[2]} : o;
  Tensor result(input.dtype(), sizes);
  const Conv conv{
      .channels_in = weight.size(1),
      .height_in = input.size(2),
      .width_in = input.size(3),
      .channels_out = weight.size(0) / groups,
      .height_out = sizes[2],
      .width_out = sizes[3],
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
  std::vector<T> columns;
  for (int64_t n = 0; n < sizes[0]; ++n) {
    for (int64_t g = 0; g < groups; ++g) {
      const T* in = input.data<T>() + (n * groups + g) * conv.channels_in * plane_in;
      const T* filter = weight.data<T>() + g * conv.channels_out * conv.channels_in * taps;
      T* to = out + (n * groups + g) * conv.channels_out * plane_out;
      for (int64_t c = 0; bias != nullptr && c < conv.channels_out; ++c) {
        std::fill_n(to + c * plane_out, plane_out, bias->data<T>()[g * conv.channels_out + c]);
      }
      // A row of a depthwise convolution is too small for a product; one of a kernel as large as
      // the image unfolds to too much.
      const bool is_direct =
          conv.channels_in == 1 || conv.channels_in * taps > kMaxUnfolded * 16 / conv.width_out;
      if (is_direct) {
        for (int64_t c = 0; c < conv.channels_out * conv.channels_in; ++c) {
          convolve_plane(conv, in + c % conv.channels_in * plane_in, filter + c * taps,
                         to + c / conv.channels_in * plane_out);
        }
      } else {
        convolve_group(conv, is_pointwise(node), in, filter, to, columns);
      }
    }
  }
  call.out() = from_nchw(result, nhwc);
  return {};
}

int64_t conv2d_multiply_adds(const Node& node) {
  const Sizes w = static_sizes(node.type("weight").shape);
  const int64_t results =
      checked_num_elements(max_sizes(node.result()->shape())).value_or(INT64_MAX);
  return count_multiply_adds(results, w[1], w[2], w[3]);
}

}  // namespace

// conv2d: cross-correlation of images with a kernel, plus a bias per output channel.
//   input   float [N, C, H, W] (layout "nchw") or [N, H, W, C] ("nhwc")
//   weight  [O, C/groups, kh, kw] in both layouts       bias  [O] or absent
//   padding [top, left, bottom, right], zeros           stride, dilation  [vertical, horizontal]
//   result  [N, O, H', W'] in the layout of input, H' = (H + top + bottom - dilation (kh-1) - 1) /
//           stride + 1, rounded down
// Output channel o belongs to group o / (O/groups) and sees that group's input channels only.
// Errors: kInvalidGraph for dtypes, channels, groups or a kernel larger than the padded image.
// Sums in f32 (f64 for f64), see gemm.h. Source: aten::conv2d.
const OpDef kConv2d = {
    .name = "conv2d",
    .schema =
        "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[] stride=[1,1], int[] "
        "padding=[0,0,0,0], int[] dilation=[1,1], int groups=1, str layout=\"nchw\") -> Tensor",
    .infer = infer_conv2d,
    .axes = conv2d_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return conv2d<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
    .multiply_adds = conv2d_multiply_adds,
};

}  // namespace downhaul::ops

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"
#include "ops/window.h"

// Pools: each channel of an image [N, C, H, W] ("nchw") or [N, H, W, C] ("nhwc") reduced over
// windows. padding is [top, left, bottom, right]. With ceil_mode the number of windows is rounded
// up, without a last window that would start in the bottom or right padding.
// Errors: kInvalidGraph for dtypes, ranks, and padding as large as the kernel (a window without an
// element).
namespace downhaul::ops {

namespace {

Status require_padding_below_kernel(const Node& node, int64_t extent_h, int64_t extent_w) {
  const Ints& p = node.ints("padding");
  if (p[0] < extent_h && p[2] < extent_h && p[1] < extent_w && p[3] < extent_w) return {};
  return invalid_graph(cat("padding: expected less than the kernel's ", extent_h, "x", extent_w,
                           ", found [", join(p, ","), "]"));
}

/// `dilation` is 1, 1 for pools without it.
TypesResult infer_pool(const Node& node, int64_t dilation_h, int64_t dilation_w) {
  DH_ASSIGN(const ImageShape image, image_shape(node, "self"));
  DH_TRY(require_ints(node, "kernel", 2, 1));
  DH_TRY(require_ints(node, "stride", 2, 1));
  DH_TRY(require_ints(node, "padding", 4, 0));
  const Ints& kernel = node.ints("kernel");
  const Ints& stride = node.ints("stride");
  const Ints& padding = node.ints("padding");
  const bool ceil_mode = node.b("ceil_mode");
  const int64_t extent_h = dilation_h * (kernel[0] - 1) + 1;
  const int64_t extent_w = dilation_w * (kernel[1] - 1) + 1;
  DH_TRY(require_padding_below_kernel(node, extent_h, extent_w));
  ImageShape out = image;
  DH_ASSIGN(out.height, window_count("kernel height", image.height, extent_h, stride[0], padding[0],
                                     padding[2], ceil_mode));
  DH_ASSIGN(out.width, window_count("kernel width", image.width, extent_w, stride[1], padding[1],
                                    padding[3], ceil_mode));
  return one_type(node.type("self").dtype, out.as(node.s("layout") == "nhwc"));
}

TypesResult infer_max_pool2d(const Node& node) {
  DH_TRY(require_number(node, "self"));
  DH_TRY(require_ints(node, "dilation", 2, 1));
  return infer_pool(node, node.ints("dilation")[0], node.ints("dilation")[1]);
}

TypesResult infer_avg_pool2d(const Node& node) {
  DH_TRY(require_float(node, "self"));
  if (node.has_attr("divisor_override") && node.i("divisor_override") == 0) {
    return invalid_graph("divisor_override: expected a value other than 0");
  }
  return infer_pool(node, 1, 1);
}

TypesResult infer_adaptive(const Node& node) {
  DH_TRY(require_float(node, "self"));
  DH_ASSIGN(ImageShape image, image_shape(node, "self"));
  DH_TRY(require_ints(node, "output_size", 2, 1));
  if (image.height.max() < 1 || image.width.max() < 1) {
    return invalid_graph(
        cat("self: expected an image that is not empty, found ", node.type("self").str()));
  }
  image.height = Dim(node.ints("output_size")[0]);
  image.width = Dim(node.ints("output_size")[1]);
  return one_type(node.type("self").dtype, image.as(node.s("layout") == "nhwc"));
}

/// Calls f(plane of self, y, x) for each element of the result, in NCHW order, and stores what it
/// gives. `planes` sizes are those of self.
template <typename T, typename F>
Status for_each_window(RefCall& call, F f) {
  const bool nhwc = call.node.s("layout") == "nhwc";
  const Tensor self = to_nchw(call.in("self"), nhwc);
  const Sizes& o = call.out().sizes();
  Tensor result(self.dtype(), nhwc ? Sizes{o[0], o[3], o[1], o[2]} : o);
  const int64_t height = self.size(2);
  const int64_t width = self.size(3);
  const T* plane = self.data<T>();
  T* out = result.mutable_data<T>();
  for (int64_t p = 0; p < self.size(0) * self.size(1); ++p, plane += height * width) {
    for (int64_t y = 0; y < result.size(2); ++y) {
      for (int64_t x = 0; x < result.size(3); ++x) *out++ = f(plane, height, width, y, x);
    }
  }
  call.out() = from_nchw(result, nhwc);
  return {};
}

template <typename T>
Status max_pool2d(RefCall& call) {
  using Limits = std::numeric_limits<T>;
  const Ints& kernel = call.node.ints("kernel");
  const Ints& stride = call.node.ints("stride");
  const Ints& padding = call.node.ints("padding");
  const Ints& dilation = call.node.ints("dilation");
  return for_each_window<T>(
      call, [&](const T* plane, int64_t height, int64_t width, int64_t y, int64_t x) {
        T best = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
        for (int64_t i = 0; i < kernel[0]; ++i) {
          const int64_t row = y * stride[0] - padding[0] + i * dilation[0];
          if (row < 0 || row >= height) continue;
          for (int64_t j = 0; j < kernel[1]; ++j) {
            const int64_t column = x * stride[1] - padding[1] + j * dilation[1];
            if (column < 0 || column >= width) continue;
            const T v = plane[row * width + column];
            // The negated comparison lets NaN in and keeps it.
            if (!(v <= best)) best = v;
            if constexpr (std::is_floating_point_v<T>) {
              if (std::isnan(best)) return best;
            }
          }
        }
        return best;
      });
}

/// Mean over rows [top, bottom) and columns [left, right), with the sum in f64.
template <typename T>
T mean_of(const T* plane, int64_t width, int64_t top, int64_t bottom, int64_t left, int64_t right,
          double divisor) {
  double sum = 0;
  for (int64_t row = top; row < bottom; ++row) {
    for (int64_t column = left; column < right; ++column) {
      sum += static_cast<double>(plane[row * width + column]);
    }
  }
  return static_cast<T>(sum / divisor);
}

template <typename T>
Status avg_pool2d(RefCall& call) {
  const Ints& kernel = call.node.ints("kernel");
  const Ints& stride = call.node.ints("stride");
  const Ints& padding = call.node.ints("padding");
  const bool count_include_pad = call.node.b("count_include_pad");
  const bool has_divisor = call.node.has_attr("divisor_override");
  const auto divisor = static_cast<double>(has_divisor ? call.node.i("divisor_override") : 1);
  return for_each_window<T>(
      call, [&](const T* plane, int64_t height, int64_t width, int64_t y, int64_t x) {
        const int64_t top = y * stride[0] - padding[0];
        const int64_t left = x * stride[1] - padding[1];
        const int64_t bottom = std::min(top + kernel[0], height + padding[2]);
        const int64_t right = std::min(left + kernel[1], width + padding[3]);
        const int64_t inner_top = std::max<int64_t>(top, 0);
        const int64_t inner_left = std::max<int64_t>(left, 0);
        const int64_t inner_bottom = std::min(bottom, height);
        const int64_t inner_right = std::min(right, width);
        const int64_t count = count_include_pad
                                  ? (bottom - top) * (right - left)
                                  : (inner_bottom - inner_top) * (inner_right - inner_left);
        return mean_of(plane, width, inner_top, inner_bottom, inner_left, inner_right,
                       has_divisor ? divisor : static_cast<double>(count));
      });
}

template <typename T>
Status adaptive_avg_pool2d(RefCall& call) {
  const Ints& bins = call.node.ints("output_size");
  const auto first = [](int64_t i, int64_t size, int64_t count) { return i * size / count; };
  const auto last = [](int64_t i, int64_t size, int64_t count) {
    return ((i + 1) * size + count - 1) / count;
  };
  return for_each_window<T>(
      call, [&](const T* plane, int64_t height, int64_t width, int64_t y, int64_t x) {
        const int64_t top = first(y, height, bins[0]);
        const int64_t bottom = last(y, height, bins[0]);
        const int64_t left = first(x, width, bins[1]);
        const int64_t right = last(x, width, bins[1]);
        return mean_of(plane, width, top, bottom, left, right,
                       static_cast<double>((bottom - top) * (right - left)));
      });
}

}  // namespace

// max_pool2d: the largest element under each window; padding never wins; NaN does. Integers too.
// Source: aten::max_pool2d.
const OpDef kMaxPool2d = {
    .name = "max_pool2d",
    .schema =
        "max_pool2d(Tensor self, int[] kernel, int[] stride, int[] padding=[0,0,0,0], int[] "
        "dilation=[1,1], bool ceil_mode=False, str layout=\"nchw\") -> Tensor",
    .infer = infer_max_pool2d,
    .axes = image_axes,
    .reference =
        [](RefCall& call) {
          return for_number(call, call.in(0).dtype(),
                            []<typename T>(RefCall& c) { return max_pool2d<T>(c); });
        },
};

// avg_pool2d: the sum under each window, padding being 0, divided by: divisor_override if given;
// with count_include_pad the window's elements inside the padded image; else those of the image.
// Sums in f64. Source: aten::avg_pool2d.
const OpDef kAvgPool2d = {
    .name = "avg_pool2d",
    .schema =
        "avg_pool2d(Tensor self, int[] kernel, int[] stride, int[] padding=[0,0,0,0], bool "
        "ceil_mode=False, bool count_include_pad=True, int? divisor_override=None, str "
        "layout=\"nchw\") -> Tensor",
    .infer = infer_avg_pool2d,
    .axes = image_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return avg_pool2d<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

// adaptive_avg_pool2d: mean over bins; bin i of n covers floor(i·H/n) up to ceil((i+1)·H/n).
// Sums in f64. Source: aten::adaptive_avg_pool2d.
const OpDef kAdaptiveAvgPool2d = {
    .name = "adaptive_avg_pool2d",
    .schema = "adaptive_avg_pool2d(Tensor self, int[] output_size, str layout=\"nchw\") -> Tensor",
    .infer = infer_adaptive,
    .axes = image_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return adaptive_avg_pool2d<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

}  // namespace downhaul::ops

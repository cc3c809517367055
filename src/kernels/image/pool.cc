#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/image/image.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image/pool.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// to[c] = the larger of `to` and `from`, NaN winning.
void max_into(const float* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    const auto v = hn::LoadU(d, from + c);
    const auto best = hn::LoadU(d, to + c);
    // Keeps `best` when it is larger or NaN: a NaN in `v` fails the comparison and enters.
    const auto keep = hn::Or(hn::Ge(best, v), hn::IsNaN(best));
    hn::StoreU(hn::IfThenElse(keep, best, v), d, to + c);
  }
  for (; c < count; ++c) {
    if (!(to[c] >= from[c] || std::isnan(to[c]))) to[c] = from[c];
  }
}

/// to[c] += the sum of `pixels` pixels at `from`, first pixel first.
void add_row(const float* HWY_RESTRICT from, int64_t pixels, int64_t stride, int64_t count,
             float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  // Four vectors at a time: one chain of additions would wait for itself.
  for (; c + 4 * lanes <= count; c += 4 * lanes) {
    const float* p = from + c;
    auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
    for (int64_t x = 0; x < pixels; ++x, p += stride) {
      s0 = hn::Add(s0, hn::LoadU(d, p));
      s1 = hn::Add(s1, hn::LoadU(d, p + lanes));
      s2 = hn::Add(s2, hn::LoadU(d, p + 2 * lanes));
      s3 = hn::Add(s3, hn::LoadU(d, p + 3 * lanes));
    }
    hn::StoreU(hn::Add(hn::LoadU(d, to + c), s0), d, to + c);
    hn::StoreU(hn::Add(hn::LoadU(d, to + c + lanes), s1), d, to + c + lanes);
    hn::StoreU(hn::Add(hn::LoadU(d, to + c + 2 * lanes), s2), d, to + c + 2 * lanes);
    hn::StoreU(hn::Add(hn::LoadU(d, to + c + 3 * lanes), s3), d, to + c + 3 * lanes);
  }
  for (; c + lanes <= count; c += lanes) {
    const float* p = from + c;
    auto sum = hn::Zero(d);
    for (int64_t x = 0; x < pixels; ++x, p += stride) sum = hn::Add(sum, hn::LoadU(d, p));
    hn::StoreU(hn::Add(hn::LoadU(d, to + c), sum), d, to + c);
  }
  for (; c < count; ++c) {
    float sum = 0;
    for (int64_t x = 0; x < pixels; ++x) sum += from[x * stride + c];
    to[c] += sum;
  }
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
namespace {

HWY_EXPORT(max_into);
HWY_EXPORT(add_row);

/// Results are handed to workers by pixels; fewer than this many elements are not worth a thread.
constexpr int64_t kGrain = 8192;

int64_t pixels_per_task(int64_t work_per_pixel) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, work_per_pixel));
}

struct Range {
  int64_t first, last;
};

/// The taps of the window of result `i` that lie on the image.
Range taps_inside(int64_t i, int64_t stride, int64_t before, int64_t dilation, int64_t kernel,
                  int64_t size) {
  const int64_t start = i * stride - before;
  const int64_t first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
  const int64_t last = size <= start ? 0 : (size - start - 1) / dilation + 1;
  return {std::min(first, kernel), std::clamp(last, std::min(first, kernel), kernel)};
}

}  // namespace

void max_pool2d(const Image& in, const Image& out, const Window& window, const float* from,
                float* to, ThreadPool& pool) {
  const auto max_row = HWY_DYNAMIC_DISPATCH(max_into);
  const int64_t work = out.channels * window.kernel_h * window.kernel_w;
  pool.run(out.batch * out.height * out.width, pixels_per_task(work),
           [&](int64_t begin, int64_t end, int) {
             for (int64_t i = begin; i < end; ++i) {
               const int64_t x = i % out.width;
               const int64_t y = i / out.width % out.height;
               const int64_t n = i / (out.width * out.height);
               const Range rows = taps_inside(y, window.stride_h, window.top, window.dilation_h,
                                              window.kernel_h, in.height);
               const Range columns = taps_inside(x, window.stride_w, window.left, window.dilation_w,
                                                 window.kernel_w, in.width);
               float* result = to + i * out.stride;
               std::fill_n(result, out.channels, -std::numeric_limits<float>::infinity());
               for (int64_t kh = rows.first; kh < rows.last; ++kh) {
                 const int64_t row = y * window.stride_h - window.top + kh * window.dilation_h;
                 for (int64_t kw = columns.first; kw < columns.last; ++kw) {
                   const int64_t column =
                       x * window.stride_w - window.left + kw * window.dilation_w;
                   max_row(from + ((n * in.height + row) * in.width + column) * in.stride,
                           out.channels, result);
                 }
               }
             }
           });
}

void avg_pool2d(const Image& in, const Image& out, const Window& window, bool count_include_pad,
                double divisor, const float* from, float* to, ThreadPool& pool) {
  const auto sum_row = HWY_DYNAMIC_DISPATCH(add_row);
  const int64_t work = out.channels * window.kernel_h * window.kernel_w;
  pool.run(out.batch * out.height * out.width, pixels_per_task(work),
           [&](int64_t begin, int64_t end, int) {
             for (int64_t i = begin; i < end; ++i) {
               const int64_t x = i % out.width;
               const int64_t y = i / out.width % out.height;
               const int64_t n = i / (out.width * out.height);
               const int64_t top = y * window.stride_h - window.top;
               const int64_t left = x * window.stride_w - window.left;
               const int64_t bottom = std::min(top + window.kernel_h, in.height + window.bottom);
               const int64_t right = std::min(left + window.kernel_w, in.width + window.right);
               const int64_t first_row = std::max<int64_t>(top, 0);
               const int64_t first_column = std::max<int64_t>(left, 0);
               const int64_t rows = std::min(bottom, in.height) - first_row;
               const int64_t columns = std::min(right, in.width) - first_column;
               float* result = to + i * out.stride;
               std::fill_n(result, out.channels, 0.0F);
               for (int64_t row = first_row; row < first_row + rows; ++row) {
                 sum_row(from + ((n * in.height + row) * in.width + first_column) * in.stride,
                         std::max<int64_t>(columns, 0), in.stride, out.channels, result);
               }
               const int64_t count =
                   count_include_pad ? (bottom - top) * (right - left) : rows * columns;
               const double by = divisor != 0 ? divisor : static_cast<double>(count);
               for (int64_t c = 0; c < out.channels; ++c) {
                 result[c] = static_cast<float>(static_cast<double>(result[c]) / by);
               }
             }
           });
}

int64_t adaptive_avg_pool2d_scratch(const Image& in, const Image& out) {
  return in.batch * out.width * in.height * in.channels;
}

void adaptive_avg_pool2d(const Image& in, const Image& out, const float* from, float* to,
                         float* scratch, ThreadPool& pool) {
  const auto sum_row = HWY_DYNAMIC_DISPATCH(add_row);
  const auto first = [](int64_t i, int64_t size, int64_t count) { return i * size / count; };
  const auto last = [](int64_t i, int64_t size, int64_t count) {
    return ((i + 1) * size + count - 1) / count;
  };
  const int64_t channels = in.channels;
  // Each input row by itself, so that a mean over a whole image is shared among the threads.
  const int64_t row_work = channels * (in.width + out.width);
  pool.run(in.batch * in.height, pixels_per_task(row_work), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t x = 0; x < out.width; ++x) {
        const int64_t left = first(x, in.width, out.width);
        float* sum = scratch + (row * out.width + x) * channels;
        std::fill_n(sum, channels, 0.0F);
        sum_row(from + (row * in.width + left) * in.stride, last(x, in.width, out.width) - left,
                in.stride, channels, sum);
      }
    }
  });
  const int64_t bin_rows = in.height / out.height + 2;
  pool.run(out.batch * out.height * out.width, pixels_per_task(channels * bin_rows),
           [&](int64_t begin, int64_t end, int) {
             for (int64_t i = begin; i < end; ++i) {
               const int64_t x = i % out.width;
               const int64_t y = i / out.width % out.height;
               const int64_t n = i / (out.width * out.height);
               const int64_t top = first(y, in.height, out.height);
               const int64_t bottom = last(y, in.height, out.height);
               const int64_t columns = last(x, in.width, out.width) - first(x, in.width, out.width);
               const auto count = static_cast<double>((bottom - top) * columns);
               constexpr int64_t kBlock = 16;
               for (int64_t c0 = 0; c0 < channels; c0 += kBlock) {
                 const int64_t width = std::min(kBlock, channels - c0);
                 double sums[kBlock] = {};
                 for (int64_t row = top; row < bottom; ++row) {
                   const float* partial =
                       scratch + ((n * in.height + row) * out.width + x) * channels + c0;
                   for (int64_t c = 0; c < width; ++c) sums[c] += static_cast<double>(partial[c]);
                 }
                 for (int64_t c = 0; c < width; ++c) {
                   to[i * out.stride + c0 + c] = static_cast<float>(sums[c] / count);
                 }
               }
             }
           });
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/image/image.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image/resize.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// a·(1 - w) + b·w, the products rounded as the reference rounds them.
template <class V>
HWY_INLINE V mix(V a, V b, V w, V rest) {
  return hn::Add(hn::Mul(a, rest), hn::Mul(b, w));
}

/// One row of results in NHWC from two rows of pixels.
void mix_pixels(const float* HWY_RESTRICT upper, const float* HWY_RESTRICT lower, int64_t in_stride,
                float down, const ResizeTap* columns, int64_t width, int64_t channels,
                float* HWY_RESTRICT to, int64_t out_stride) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto v_down = hn::Set(d, down);
  const auto v_up = hn::Set(d, 1.0F - down);
  for (int64_t x = 0; x < width; ++x, to += out_stride) {
    const ResizeTap tap = columns[x];
    const float* a = upper + tap.low * in_stride;
    const float* b = upper + tap.high * in_stride;
    const float* p = lower + tap.low * in_stride;
    const float* q = lower + tap.high * in_stride;
    const auto right = hn::Set(d, tap.weight);
    const auto left = hn::Set(d, 1.0F - tap.weight);
    int64_t c = 0;
    for (; c + lanes <= channels; c += lanes) {
      const auto above = mix(hn::LoadU(d, a + c), hn::LoadU(d, b + c), right, left);
      const auto below = mix(hn::LoadU(d, p + c), hn::LoadU(d, q + c), right, left);
      hn::StoreU(mix(above, below, v_down, v_up), d, to + c);
    }
    if (c == channels) continue;
    const auto rest = static_cast<size_t>(channels - c);
    const auto above = mix(load_partial(d, a + c, rest), load_partial(d, b + c, rest), right, left);
    const auto below = mix(load_partial(d, p + c, rest), load_partial(d, q + c, rest), right, left);
    store_partial(mix(above, below, v_down, v_up), d, to + c, rest);
  }
}

/// to = above·(1 - down) + below·down for rows of one plane. `streams`: past the caches.
void mix_rows(const float* HWY_RESTRICT above, const float* HWY_RESTRICT below, float down,
              int64_t width, bool streams, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto v_down = hn::Set(d, down);
  const auto v_up = hn::Set(d, 1.0F - down);
  int64_t x = 0;
  if (streams) {
    const auto at = [&](int64_t i) HWY_ATTR {
      return mix(hn::LoadU(d, above + i), hn::LoadU(d, below + i), v_down, v_up);
    };
    const auto misaligned =
        static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) / sizeof(float)) % lanes;
    const int64_t first = misaligned == 0 ? 0 : lanes - misaligned;
    if (first + lanes <= width) {
      // The first vector overlaps the next.
      if (first != 0) hn::StoreU(at(0), d, to);
      for (x = first; x + lanes <= width; x += lanes) hn::Stream(at(x), d, to + x);
    }
  }
  for (; x + lanes <= width; x += lanes) {
    hn::StoreU(mix(hn::LoadU(d, above + x), hn::LoadU(d, below + x), v_down, v_up), d, to + x);
  }
  for (; x < width; ++x) {
    const float a = above[x] * (1.0F - down);
    const float b = below[x] * down;
    to[x] = a + b;
  }
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
namespace {

HWY_EXPORT(mix_pixels);
HWY_EXPORT(mix_rows);

/// Elements of a result that caches do not keep until someone reads it.
constexpr int64_t kStreamed = int64_t{4} << 20;
/// Elements of results below which another thread is not worth waking.
constexpr int64_t kGrain = 8192;

int64_t rows_per_task(int64_t row) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row));
}

/// One row of one plane, mixed along it.
void widen_row(const float* from, const ResizeTap* columns, int64_t width, float* to) {
  for (int64_t x = 0; x < width; ++x) {
    const ResizeTap tap = columns[x];
    const float a = from[tap.low] * (1.0F - tap.weight);
    const float b = from[tap.high] * tap.weight;
    to[x] = a + b;
  }
}

}  // namespace

void bilinear_taps(int64_t in, int64_t out, bool align_corners, double scale, ResizeTap* taps) {
  double step = static_cast<double>(in) / static_cast<double>(out);
  if (align_corners) {
    step = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
  } else if (scale != 0) {
    step = 1 / scale;
  }
  for (int64_t i = 0; i < out; ++i) {
    const auto at = static_cast<double>(i);
    const double source = align_corners ? at * step : std::max(0.0, (at + 0.5) * step - 0.5);
    const double inside = std::min(source, static_cast<double>(in - 1));
    const auto low = static_cast<int64_t>(inside);
    taps[i] = {static_cast<int32_t>(low), static_cast<int32_t>(std::min(low + 1, in - 1)),
               static_cast<float>(inside - static_cast<double>(low))};
  }
}

void nearest_indices(int64_t in, int64_t out, double scale, int32_t* indices) {
  const float step =
      scale != 0 ? static_cast<float>(1 / scale) : static_cast<float>(in) / static_cast<float>(out);
  for (int64_t i = 0; i < out; ++i) {
    const float source = std::floor(static_cast<float>(i) * step);
    indices[i] = static_cast<int32_t>(
        source >= static_cast<float>(in) ? in - 1 : static_cast<int64_t>(source));
  }
}

void resize_bilinear(const Image& in, const Image& out, const ResizeTap* rows,
                     const ResizeTap* columns, const float* from, float* to, ThreadPool& pool) {
  const auto mix_row = HWY_DYNAMIC_DISPATCH(mix_pixels);
  pool.run(out.batch * out.height, rows_per_task(out.width * out.channels),
           [&](int64_t begin, int64_t end, int) {
             for (int64_t i = begin; i < end; ++i) {
               const ResizeTap tap = rows[i % out.height];
               const float* image = from + i / out.height * in.height * in.width * in.stride;
               mix_row(image + tap.low * in.width * in.stride,
                       image + tap.high * in.width * in.stride, in.stride, tap.weight, columns,
                       out.width, out.channels, to + i * out.width * out.stride, out.stride);
             }
           });
}

int64_t resize_planes_scratch(int64_t width_out, int num_threads) {
  return 2 * width_out * num_threads;
}

void resize_bilinear_planes(int64_t planes, int64_t height_in, int64_t width_in, int64_t height_out,
                            int64_t width_out, const ResizeTap* rows, const ResizeTap* columns,
                            const float* from, float* to, float* scratch, ThreadPool& pool) {
  const auto mix_row = HWY_DYNAMIC_DISPATCH(mix_rows);
  const bool streams = planes * height_out * width_out >= kStreamed;
  pool.run(planes * height_out, rows_per_task(width_out),
           [&](int64_t begin, int64_t end, int worker) {
             float* above = scratch + 2 * width_out * worker;
             float* below = above + width_out;
             // The source rows that `above` and `below` hold, widened.
             int64_t above_row = -1;
             int64_t below_row = -1;
             for (int64_t i = begin; i < end; ++i) {
               const ResizeTap tap = rows[i % height_out];
               const int64_t first = i / height_out * height_in;
               if (below_row == first + tap.low) {
                 std::swap(above, below);
                 std::swap(above_row, below_row);
               }
               if (above_row != first + tap.low) {
                 above_row = first + tap.low;
                 widen_row(from + above_row * width_in, columns, width_out, above);
               }
               if (below_row != first + tap.high) {
                 below_row = first + tap.high;
                 widen_row(from + below_row * width_in, columns, width_out, below);
               }
               mix_row(above, below, tap.weight, width_out, streams, to + i * width_out);
             }
             if (streams) hwy::FlushStream();
           });
}

void resize_nearest(const Image& in, const Image& out, const int32_t* rows, const int32_t* columns,
                    const float* from, float* to, ThreadPool& pool) {
  const auto bytes = static_cast<size_t>(out.channels) * sizeof(float);
  pool.run(out.batch * out.height, rows_per_task(out.width * out.channels),
           [&](int64_t begin, int64_t end, int) {
             for (int64_t i = begin; i < end; ++i) {
               const int64_t row = i / out.height * in.height + rows[i % out.height];
               const float* source = from + row * in.width * in.stride;
               float* result = to + i * out.width * out.stride;
               for (int64_t x = 0; x < out.width; ++x, result += out.stride) {
                 std::memcpy(result, source + columns[x] * in.stride, bytes);
               }
             }
           });
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

#include "kernels/conv/transposed.h"

#include <algorithm>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/transposed.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Row y of the result.
void add_row(const TransposedConv2d& c, int64_t first_row, int64_t rows, const float* products,
             int64_t y, float* out) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t pixel = c.kernel_h * c.kernel_w * c.channels;
  float* line = out + y * c.width_out * c.out_stride;
  for (int64_t kh = 0; kh < c.kernel_h; ++kh) {
    const int64_t at = y + c.top - kh * c.dilation_h;
    if (at < 0 || at % c.stride_h != 0) continue;
    const int64_t row = at / c.stride_h - first_row;
    if (row < 0 || row >= rows) continue;
    const float* from = products + row * c.width_in * pixel + kh * c.kernel_w * c.channels;
    for (int64_t i = 0; i < c.width_in; ++i) {
      for (int64_t kw = 0; kw < c.kernel_w; ++kw) {
        const int64_t x = i * c.stride_w - c.left + kw * c.dilation_w;
        if (x < 0 || x >= c.width_out) continue;
        const float* p = from + i * pixel + kw * c.channels;
        float* to = line + x * c.out_stride;
        int64_t j = 0;
        for (; j + lanes <= c.channels; j += lanes) {
          hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, p + j)), d, to + j);
        }
        for (; j < c.channels; ++j) to[j] += p[j];
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
HWY_EXPORT(add_row);

void add_taps(const TransposedConv2d& c, int64_t first_row, int64_t rows, const float* products,
              float* out, ThreadPool& pool) {
  const auto row = HWY_DYNAMIC_DISPATCH(add_row);
  // Rows that these can reach.
  const int64_t begin = std::max<int64_t>(0, first_row * c.stride_h - c.top);
  const int64_t last =
      (first_row + rows - 1) * c.stride_h - c.top + (c.kernel_h - 1) * c.dilation_h;
  const int64_t end = std::min(c.height_out, last + 1);
  if (begin >= end) return;
  constexpr int64_t kGrain = 1 << 15;  // floats: below, waking a thread costs more than it gives
  const int64_t line = std::max<int64_t>(1, c.width_out * c.channels);
  pool.run(end - begin, std::max<int64_t>(1, kGrain / line), [&](int64_t from, int64_t to, int) {
    for (int64_t y = begin + from; y < begin + to; ++y) {
      row(c, first_row, rows, products, y, out);
    }
  });
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

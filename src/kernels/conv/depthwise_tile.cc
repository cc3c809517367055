#include "kernels/conv/depthwise_tile.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise_tile.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/highway.h"
#include "kernels/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::ScalableTag<float>;
constexpr size_t kLanes = hn::MaxLanes(Full());
using Half = hn::CappedTag<float, kLanes >= 2 ? kLanes / 2 : 1>;
using One = hn::CappedTag<float, 1>;

/// kOut neighbouring results from result x on, channels [c, c + lanes). A column of the input is
/// loaded once for all results that see it. Each result has one sum, taps in order.
template <class D, int kWidth, int kStride, int kOut>
HWY_INLINE void depthwise_step(D d, const DepthwiseRow& row, int64_t x, int64_t c) {
  const float* w = row.packed + (c >> 5) * row.block + (c & 31);
  hn::Vec<D> acc[kOut];
  const auto bias = hn::LoadU(d, w);
#pragma GCC unroll 4
  for (int o = 0; o < kOut; ++o) acc[o] = bias;
  w += 32 * (1 + row.first_tap_row * kWidth);
  for (int64_t i = 0; i < row.tap_rows; ++i, w += 32 * kWidth) {
    const float* const* pixels = row.pixels[i] + x * kStride;
    hn::Vec<D> weights[kWidth];
#pragma GCC unroll 8
    for (int j = 0; j < kWidth; ++j) weights[j] = hn::LoadU(d, w + 32 * j);
#pragma GCC unroll 16
    for (int column = 0; column < (kOut - 1) * kStride + kWidth; ++column) {
      const auto v = hn::LoadU(d, pixels[column] + c);
#pragma GCC unroll 4
      for (int o = 0; o < kOut; ++o) {
        const int j = column - o * kStride;
        if (j >= 0 && j < kWidth) acc[o] = hn::MulAdd(v, weights[j], acc[o]);
      }
    }
  }
  float* out = row.out + x * row.out_step + c;
#pragma GCC unroll 4
  for (int o = 0; o < kOut; ++o) {
    hn::StoreU(vec_clamp(d, acc[o], row.lo, row.hi), d, out + o * row.out_step);
  }
}

template <int kWidth, int kStride, int kOut>
HWY_INLINE void depthwise_channels(const DepthwiseRow& row, int64_t x, int64_t c, int64_t last) {
  for (; c + static_cast<int64_t>(kLanes) <= last; c += kLanes) {
    depthwise_step<Full, kWidth, kStride, kOut>(Full(), row, x, c);
  }
  constexpr auto kHalf = static_cast<int64_t>(hn::MaxLanes(Half()));
  for (; c + kHalf <= last; c += kHalf) {
    depthwise_step<Half, kWidth, kStride, kOut>(Half(), row, x, c);
  }
  for (; c < last; ++c) depthwise_step<One, kWidth, kStride, kOut>(One(), row, x, c);
}

template <int kWidth, int kStride>
HWY_INLINE void depthwise_row(const DepthwiseRow& args) {
  const DepthwiseRow row = args;  // that stores do not make it be read again
  // Channels whose weights and whose pixels under a step stay in a first cache of 32 KiB until the
  // next step, which needs most of them again.
  constexpr int64_t kSlab = kWidth == 3 ? 128 : (kWidth == 5 ? 64 : 32);
  for (int64_t first = row.first_channel; first < row.last_channel; first += kSlab) {
    const int64_t last = HWY_MIN(first + kSlab, row.last_channel);
    int64_t x = 0;
    for (; x + 4 <= row.count; x += 4) {
      depthwise_channels<kWidth, kStride, 4>(row, x, first, last);
    }
    if (x + 2 <= row.count) {
      depthwise_channels<kWidth, kStride, 2>(row, x, first, last);
      x += 2;
    }
    if (x < row.count) depthwise_channels<kWidth, kStride, 1>(row, x, first, last);
  }
}

template <class D>
HWY_INLINE void pixel_step(D d, const DepthwisePixel& p, int64_t c) {
  const float* w = p.packed + c / 32 * p.block + c % 32;
  auto acc = hn::LoadU(d, w);
  const int64_t from = c / p.multiplier;
  for (int64_t t = 0; t < p.count; ++t) {
    acc = hn::MulAdd(hn::LoadU(d, p.pixels[t] + from), hn::LoadU(d, w + 32 * (1 + p.taps[t])), acc);
  }
  hn::StoreU(acc, d, p.out + c);
}

}  // namespace

void row_3_1(const DepthwiseRow& row) { depthwise_row<3, 1>(row); }
void row_3_2(const DepthwiseRow& row) { depthwise_row<3, 2>(row); }
void row_5_1(const DepthwiseRow& row) { depthwise_row<5, 1>(row); }
void row_5_2(const DepthwiseRow& row) { depthwise_row<5, 2>(row); }
void row_7_1(const DepthwiseRow& row) { depthwise_row<7, 1>(row); }

void any_pixel(const DepthwisePixel& p) {
  int64_t c = 0;
  if (p.multiplier == 1) {
    for (; c + static_cast<int64_t>(kLanes) <= p.channels_out; c += kLanes) {
      pixel_step(Full(), p, c);
    }
  }
  for (; c < p.channels_out; ++c) pixel_step(One(), p, c);
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {

HWY_EXPORT(row_3_1);
HWY_EXPORT(row_3_2);
HWY_EXPORT(row_5_1);
HWY_EXPORT(row_5_2);
HWY_EXPORT(row_7_1);
HWY_EXPORT(any_pixel);

DepthwiseRowFn depthwise_row_fn(int64_t kernel_w, int64_t stride_w) {
  if (kernel_w == 3) {
    return stride_w == 1 ? HWY_DYNAMIC_DISPATCH(row_3_1) : HWY_DYNAMIC_DISPATCH(row_3_2);
  }
  if (kernel_w == 5) {
    return stride_w == 1 ? HWY_DYNAMIC_DISPATCH(row_5_1) : HWY_DYNAMIC_DISPATCH(row_5_2);
  }
  return HWY_DYNAMIC_DISPATCH(row_7_1);
}

DepthwisePixelFn depthwise_pixel_fn() { return HWY_DYNAMIC_DISPATCH(any_pixel); }

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

#include "kernels/conv/winograd_tile.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/winograd_tile.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/highway.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {
namespace {

using Full = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;
constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(Full()));

// Points a = sqrt(1/2) and b = sqrt(2): with them the rounding errors of the transforms are a
// quarter of those with 1 and 2, about twice those of plain sums.
constexpr float kSqrtHalf = 0.70710678f;
constexpr float kSqrtTwo = 1.41421356f;

/// B^T of a column.
///   1   0   -5/2   0   1   0
///   0  -2a  -2     a   1   0
///   0   2a  -2    -a   1   0
///   0  -a   -1/2   b   1   0
///   0   a   -1/2  -b   1   0
///   0   1    0   -5/2  0   1
template <class D, class V>
HWY_INLINE void transform_in(D d, const V (&x)[6], V (&y)[6]) {
  const V two = hn::Set(d, 2.0f);
  const V half = hn::Set(d, 0.5f);
  const V five_halves = hn::Set(d, 2.5f);
  const V even1 = hn::NegMulAdd(two, x[2], x[4]);
  const V odd1 = hn::Mul(hn::Set(d, kSqrtHalf), hn::NegMulAdd(two, x[1], x[3]));
  const V even2 = hn::NegMulAdd(half, x[2], x[4]);
  const V odd2 = hn::Mul(hn::Set(d, kSqrtTwo), hn::NegMulAdd(half, x[1], x[3]));
  y[0] = hn::Add(x[0], hn::NegMulAdd(five_halves, x[2], x[4]));
  y[1] = hn::Add(even1, odd1);
  y[2] = hn::Sub(even1, odd1);
  y[3] = hn::Add(even2, odd2);
  y[4] = hn::Sub(even2, odd2);
  y[5] = hn::Add(x[1], hn::NegMulAdd(five_halves, x[3], x[5]));
}

/// A^T of a column.
///   1   1    1    1   1   0
///   0   a   -a    b  -b   0
///   0  1/2  1/2   2   2   0
///   0  a/2 -a/2  2b -2b   1
template <class D, class V>
HWY_INLINE void transform_out(D d, const V (&x)[6], V (&y)[4]) {
  const V sum1 = hn::Add(x[1], x[2]);
  const V difference1 = hn::Mul(hn::Set(d, kSqrtHalf), hn::Sub(x[1], x[2]));
  const V sum2 = hn::Add(x[3], x[4]);
  const V difference2 = hn::Mul(hn::Set(d, kSqrtTwo), hn::Sub(x[3], x[4]));
  const V half = hn::Set(d, 0.5f);
  const V two = hn::Set(d, 2.0f);
  y[0] = hn::Add(x[0], hn::Add(sum1, sum2));
  y[1] = hn::Add(difference1, difference2);
  y[2] = hn::MulAdd(two, sum2, hn::Mul(half, sum1));
  y[3] = hn::Add(hn::MulAdd(two, difference2, hn::Mul(half, difference1)), x[5]);
}

template <class D>
HWY_INLINE void tile_in(D d, const float* const* pixels, int64_t c, float* to, int64_t stride) {
  using V = hn::Vec<D>;
  V columns[6][6];  // [column][row]
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    V x[6];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) x[i] = hn::LoadU(d, pixels[6 * i + j] + c);
    transform_in(d, x, columns[j]);
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    V x[6];
    V y[6];
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) x[j] = columns[j][i];
    transform_in(d, x, y);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) hn::StoreU(y[j], d, to + (6 * i + j) * stride + c);
  }
}

template <class D>
HWY_INLINE void tile_out(D d, const float* from, int64_t stride, const float* bias, int64_t c,
                         float lo, float hi, float* const* results) {
  using V = hn::Vec<D>;
  V rows[6][4];  // [product row][result column]
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    V x[6];
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) x[j] = hn::LoadU(d, from + (6 * i + j) * stride + c);
    transform_out(d, x, rows[i]);
  }
  const V start = hn::LoadU(d, bias + c);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    V x[6];
    V y[4];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) x[i] = rows[i][j];
    transform_out(d, x, y);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      float* to = results[4 * i + j];
      if (to != nullptr) hn::StoreU(vec_clamp(d, hn::Add(y[i], start), lo, hi), d, to + c);
    }
  }
}

}  // namespace

void winograd_in(const float* const* pixels, int64_t channels, float* to, int64_t stride) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) tile_in(Full(), pixels, c, to, stride);
  for (; c < channels; ++c) tile_in(One(), pixels, c, to, stride);
}

void winograd_out(const float* from, int64_t stride, const float* bias, int64_t channels, float lo,
                  float hi, float* const* results) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) {
    tile_out(Full(), from, stride, bias, c, lo, hi, results);
  }
  for (; c < channels; ++c) tile_out(One(), from, stride, bias, c, lo, hi, results);
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {

HWY_EXPORT(winograd_in);
HWY_EXPORT(winograd_out);

WinogradInFn winograd_in_fn() { return HWY_DYNAMIC_DISPATCH(winograd_in); }
WinogradOutFn winograd_out_fn() { return HWY_DYNAMIC_DISPATCH(winograd_out); }

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

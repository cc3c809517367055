// Sums of a row in a fixed order: element i goes to partial sum i mod 64. Per-target header.
#if defined(DOWNHAUL_KERNELS_SUM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DOWNHAUL_KERNELS_SUM_INL_H_
#undef DOWNHAUL_KERNELS_SUM_INL_H_
#else
#define DOWNHAUL_KERNELS_SUM_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Calls step(i, n, v) for the vectors of a row of `width` and gives the sum of what it returns; n
/// is the number of elements, less than a vector only in the last. 64 partial sums hide the latency
/// of addition on every ISA. `step` must return 0 for elements behind n.
template <class Step>
HWY_INLINE float sum_row(int64_t width, Step step) {
  using D = hn::CappedTag<float, 16>;
  const D d;
  constexpr size_t kLanes = hn::MaxLanes(D());
  constexpr size_t kVectors = 64 / kLanes;
  hn::Vec<D> sums[kVectors];
#pragma GCC unroll 16
  for (size_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(d);
  const auto size = static_cast<size_t>(width);
  size_t i = 0;
  for (; i + 64 <= size; i += 64) {
#pragma GCC unroll 16
    for (size_t v = 0; v < kVectors; ++v) {
      sums[v] = hn::Add(sums[v], step(d, i + v * kLanes, kLanes));
    }
  }
#pragma GCC unroll 16
  for (size_t v = 0; v < kVectors; ++v) {
    if (i >= size) continue;
    sums[v] = hn::Add(sums[v], step(d, i, HWY_MIN(kLanes, size - i)));
    i += kLanes;
  }
  // The tree: first whole vectors, then within one.
#pragma GCC unroll 4
  for (size_t half = kVectors / 2; half >= 1; half /= 2) {
#pragma GCC unroll 8
    for (size_t v = 0; v < half; ++v) sums[v] = hn::Add(sums[v], sums[v + half]);
  }
  HWY_ALIGN float lanes[kLanes];
  hn::Store(sums[0], d, lanes);
  for (size_t half = kLanes / 2; half >= 1; half /= 2) {
    for (size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

/// p[i … i + n), zeros behind.
template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const float* p, size_t n) {
  return n == hn::Lanes(d) ? hn::LoadU(d, p) : load_partial(d, p, n);
}
template <class D>
HWY_INLINE void store_some(hn::Vec<D> v, D d, float* p, size_t n) {
  if (n == hn::Lanes(d)) {
    hn::StoreU(v, d, p);
  } else {
    store_partial(v, d, p, n);
  }
}
/// v with zeros from element n on.
template <class D>
HWY_INLINE hn::Vec<D> first_some(D d, hn::Vec<D> v, size_t n) {
  return n == hn::Lanes(d) ? v : hn::IfThenElseZero(hn::FirstN(d, n), v);
}

/// Calls step(d, i, n) for the vectors of a row.
template <class Step>
HWY_INLINE void for_row(int64_t width, Step step) {
  const hn::CappedTag<float, 16> d;
  const size_t lanes = hn::Lanes(d);
  const auto size = static_cast<size_t>(width);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) step(d, i, lanes);
  if (i < size) step(d, i, size - i);
}

}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

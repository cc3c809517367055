// The last elements of a row, fewer than a vector. Nothing behind them is read or written, also on
// targets whose masked loads and stores touch the whole vector. Per-target header.
#if defined(DOWNHAUL_KERNELS_PARTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DOWNHAUL_KERNELS_PARTIAL_INL_H_
#undef DOWNHAUL_KERNELS_PARTIAL_INL_H_
#else
#define DOWNHAUL_KERNELS_PARTIAL_INL_H_
#endif

#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// p[0 … n), then zeros; n < Lanes(d).
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_partial(D d, const T* p, size_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) >= 4) return hn::MaskedLoad(hn::FirstN(d, n), d, p);
#endif
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
  std::memcpy(lanes, p, n * sizeof(T));
  return hn::Load(d, lanes);
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_partial(hn::Vec<D> v, D d, T* p, size_t n) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) >= 4) {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
    return;
  }
#endif
  HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, lanes);
  std::memcpy(p, lanes, n * sizeof(T));
}

}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

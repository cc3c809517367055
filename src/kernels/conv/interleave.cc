#include "kernels/conv/interleave.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/interleave.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void interleave(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                const float* HWY_RESTRICT c, int64_t count, float* HWY_RESTRICT to) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreInterleaved3(hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i), d,
                          to + 3 * i);
  }
  for (; i < count; ++i) {
    to[3 * i] = a[i];
    to[3 * i + 1] = b[i];
    to[3 * i + 2] = c[i];
  }
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {

HWY_EXPORT(interleave);

void interleave_3(const float* plane0, const float* plane1, const float* plane2, int64_t count,
                  float* to) {
  HWY_DYNAMIC_DISPATCH(interleave)(plane0, plane1, plane2, count, to);
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

#include <algorithm>

#include "kernels/image/image.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image/scale.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// In place is allowed, so the pointers are not HWY_RESTRICT.
void scale_pixels(const float* from, int64_t from_stride, const float* scale, int64_t pixels,
                  int64_t channels, float* to, int64_t to_stride) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t p = 0; p < pixels; ++p, from += from_stride, to += to_stride) {
    int64_t c = 0;
    for (; c + lanes <= channels; c += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, from + c), hn::LoadU(d, scale + c)), d, to + c);
    }
    for (; c < channels; ++c) to[c] = from[c] * scale[c];
  }
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
namespace {

HWY_EXPORT(scale_pixels);

/// Elements below which another thread is not worth waking.
constexpr int64_t kGrain = 8192;

}  // namespace

void scale_channels(const Image& image, const float* scale, const float* from, float* to,
                    int64_t to_stride, ThreadPool& pool) {
  const auto multiply = HWY_DYNAMIC_DISPATCH(scale_pixels);
  const int64_t plane = image.height * image.width;
  pool.run(image.batch * plane, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, image.channels)),
           [&](int64_t begin, int64_t end, int) {
             while (begin < end) {
               const int64_t n = begin / plane;
               const int64_t pixels = std::min(end, (n + 1) * plane) - begin;
               multiply(from + begin * image.stride, image.stride, scale + n * image.channels,
                        pixels, image.channels, to + begin * to_stride, to_stride);
               begin += pixels;
             }
           });
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

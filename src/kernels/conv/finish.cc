#include "kernels/conv/finish.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/finish.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/highway.h"
#include "kernels/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

using Full = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;
constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(Full()));

template <class D, class F>
HWY_INLINE void finish_one(D d, const F& activate, float scale, Combine combine, const float* from,
                           const float* other, float* to) {
  auto v = hn::Mul(hn::LoadU(d, from), hn::Set(d, scale));
  if (combine == Combine::kAddBefore) v = hn::Add(v, hn::LoadU(d, other));
  v = activate(d, v);
  if (combine == Combine::kAddAfter) v = hn::Add(v, hn::LoadU(d, other));
  if (combine == Combine::kMultiplyAfter) v = hn::Mul(v, hn::LoadU(d, other));
  hn::StoreU(v, d, to);
}

void finish(const float* raw, int64_t raw_stride, int64_t pixels, int64_t channels,
            const Epilogue& epilogue, const float* operand, float* out, int64_t out_stride) {
  constexpr Full kFull;
  constexpr One kOne;
  // Copies: stores of results could change what a reference leads to.
  const float scale = epilogue.scale;
  const Combine combine = epilogue.combine;
  const int64_t operand_stride = epilogue.operand_stride;
  with_activation(epilogue.activation, epilogue.lo, epilogue.hi, [&](auto activate) HWY_ATTR {
    for (int64_t p = 0; p < pixels; ++p, raw += raw_stride, out += out_stride) {
      int64_t c = 0;
      if (combine == Combine::kNone && scale == 1.0f) {
        for (; c + 2 * kLanes <= channels; c += 2 * kLanes) {
          const auto a = activate(kFull, hn::LoadU(kFull, raw + c));
          const auto b = activate(kFull, hn::LoadU(kFull, raw + c + kLanes));
          hn::StoreU(a, kFull, out + c);
          hn::StoreU(b, kFull, out + c + kLanes);
        }
      }
      for (; c + kLanes <= channels; c += kLanes) {
        finish_one(kFull, activate, scale, combine, raw + c, operand + c, out + c);
      }
      for (; c < channels; ++c) {
        finish_one(kOne, activate, scale, combine, raw + c, operand + c, out + c);
      }
      if (operand != nullptr) operand += operand_stride;
    }
  });
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {

HWY_EXPORT(finish);

void finish_pixels(const float* raw, int64_t raw_stride, int64_t pixels, int64_t channels,
                   const Epilogue& epilogue, const float* operand, float* out, int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(finish)
  (raw, raw_stride, pixels, channels, epilogue, operand, out, out_stride);
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

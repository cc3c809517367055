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
constexpr size_t kLanes = hn::MaxLanes(Full());

void finish(const float* raw, int64_t raw_stride, int64_t pixels, int64_t channels,
            const Epilogue& epilogue, const float* operand, float* out, int64_t out_stride) {
  with_activation(epilogue.activation, epilogue.lo, epilogue.hi, [&](auto activate) HWY_ATTR {
    const auto finish_one = [&](auto d, const float* from, const float* other, float* to) HWY_ATTR {
      auto v = hn::LoadU(d, from);
      if (epilogue.scale != 1.0f) v = hn::Mul(v, hn::Set(d, epilogue.scale));
      if (epilogue.combine == Combine::kAddBefore) v = hn::Add(v, hn::LoadU(d, other));
      v = activate(d, v);
      if (epilogue.combine == Combine::kAddAfter) v = hn::Add(v, hn::LoadU(d, other));
      if (epilogue.combine == Combine::kMultiplyAfter) v = hn::Mul(v, hn::LoadU(d, other));
      hn::StoreU(v, d, to);
    };
    for (int64_t p = 0; p < pixels; ++p) {
      int64_t c = 0;
      for (; c + static_cast<int64_t>(kLanes) <= channels; c += kLanes) {
        finish_one(Full(), raw + c, operand + c, out + c);
      }
      for (; c < channels; ++c) finish_one(One(), raw + c, operand + c, out + c);
      raw += raw_stride;
      out += out_stride;
      if (operand != nullptr) operand += epilogue.operand_stride;
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

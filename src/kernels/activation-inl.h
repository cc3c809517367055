// Activations of epilogues on vectors. Per-target header.
#if defined(DOWNHAUL_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DOWNHAUL_KERNELS_ACTIVATION_INL_H_
#undef DOWNHAUL_KERNELS_ACTIVATION_INL_H_
#else
#define DOWNHAUL_KERNELS_ACTIVATION_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/epilogue.h"
#include "kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(f) with f(d, v) the activation of a vector: one choice outside of the loop over
/// vectors, which is compiled once for each. `lo` and `hi` as in Epilogue.
template <class Body>
HWY_INLINE void with_activation(Activation activation, float lo, float hi, const Body& body) {
  switch (activation) {
    case Activation::kNone:
      return body([](auto, auto v) HWY_ATTR { return v; });
    case Activation::kClamp:
      return body([lo, hi](auto d, auto v) HWY_ATTR { return vec_clamp(d, v, lo, hi); });
    case Activation::kGelu:
      return body([](auto d, auto v) HWY_ATTR { return vec_gelu(d, v); });
    case Activation::kGeluTanh:
      return body([](auto d, auto v) HWY_ATTR { return vec_gelu_tanh(d, v); });
    case Activation::kHardSwish:
      return body([](auto d, auto v) HWY_ATTR { return vec_hardswish(d, v); });
    case Activation::kHardSigmoid:
      return body([](auto d, auto v) HWY_ATTR { return vec_hardsigmoid(d, v); });
    case Activation::kSigmoid:
      return body([](auto d, auto v) HWY_ATTR { return vec_sigmoid(d, v); });
    case Activation::kSilu:
      return body([](auto d, auto v) HWY_ATTR { return vec_silu(d, v); });
    case Activation::kTanh:
      return body([](auto d, auto v) HWY_ATTR { return vec_tanh(d, v); });
    case Activation::kLeakyRelu:
      return body([lo](auto d, auto v) HWY_ATTR {
        return hn::IfThenElse(hn::Gt(v, hn::Zero(d)), v, hn::Mul(v, hn::Set(d, lo)));
      });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

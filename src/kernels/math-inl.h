// Functions of f32 vectors, for any Highway float tag. Per-target header: included again for every
// target, so it has a guard that toggles.
//
// Bounds are the largest error seen over all exponents and signs against f64, in units in the last
// place of the f32 result, with and without fused multiply-add (math_test.cc sweeps them). Unless
// said otherwise: exact at 0 with its sign, NaN gives NaN, infinities give the limit, denormal
// arguments and results are computed.
//
// The polynomials are minimax fits (Remez exchange in 40 digits) of what the comment at each names,
// over the interval that the reduction leaves, relative or absolute as the use needs.
#if defined(DOWNHAUL_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DOWNHAUL_KERNELS_MATH_INL_H_
#undef DOWNHAUL_KERNELS_MATH_INL_H_
#else
#define DOWNHAUL_KERNELS_MATH_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// c[n-1]·x^(n-1) + … + c[0].
template <class D, class V>
HWY_INLINE V vec_polynomial(D d, V, float c0) {
  return hn::Set(d, c0);
}
template <class D, class V, typename... C>
HWY_INLINE V vec_polynomial(D d, V x, float c0, C... more) {
  return hn::MulAdd(vec_polynomial(d, x, more...), x, hn::Set(d, c0));
}

// minps and maxps give the second operand for NaN and for zeros of either sign. The x86-64
// baseline, for which Highway takes one element at a time, does not promise it.
#undef DH_MINPS
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
#define DH_MINPS 1
#else
#define DH_MINPS 0
#endif

/// x < low ? low : (high < x ? high : x). NaN and the sign of zero stay, which the plain Min and
/// Max of some targets do not promise.
template <class D, class V>
HWY_INLINE V vec_clamp(D, V x, V low, V high) {
#if DH_MINPS
  return hn::Min(high, hn::Max(low, x));
#else
  const V y = hn::IfThenElse(hn::Lt(x, low), low, x);
  return hn::IfThenElse(hn::Lt(high, y), high, y);
#endif
}
template <class D, class V>
HWY_INLINE V vec_clamp(D d, V x, float low, float high) {
  return vec_clamp(d, x, hn::Set(d, low), hn::Set(d, high));
}

/// max(a, b) and min(a, b) of torch: NaN when either is, a when they are equal.
template <class D, class V>
HWY_INLINE V vec_maximum(D, V a, V b) {
#if DH_MINPS
  return hn::IfThenElse(hn::IsNaN(b), b, hn::Max(b, a));
#else
  return hn::IfThenElse(hn::Or(hn::IsNaN(b), hn::Lt(a, b)), b, a);
#endif
}
template <class D, class V>
HWY_INLINE V vec_minimum(D, V a, V b) {
#if DH_MINPS
  return hn::IfThenElse(hn::IsNaN(b), b, hn::Min(b, a));
#else
  return hn::IfThenElse(hn::Or(hn::IsNaN(b), hn::Lt(b, a)), b, a);
#endif
}

namespace math_detail {

// Adding 1.5·2^23 rounds to an integer, which then stands in the low bits of the sum.
constexpr float kRounder = 12582912.0f;
constexpr int32_t kRounderBits = 0x4B400000;
constexpr float kLog2E = 1.44269504f;
// ln 2 in two parts; the first has 9 bits, so that its products with exponents are exact.
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;

/// x = n·ln 2 + r with |r| ≤ ln 2 / 2; `rounded` is n + `rounder`.
template <class D, class V>
struct ExpParts {
  V rounded;
  V r;
};
template <class D, class V>
HWY_INLINE ExpParts<D, V> exp_parts(D d, V x, float rounder) {
  const V rounded = hn::MulAdd(x, hn::Set(d, kLog2E), hn::Set(d, rounder));
  const V n = hn::Sub(rounded, hn::Set(d, rounder));
  V r = hn::NegMulAdd(n, hn::Set(d, kLn2High), x);
  r = hn::NegMulAdd(n, hn::Set(d, kLn2Low), r);
  return {rounded, r};
}

/// e^r for |r| ≤ ln 2 / 2; absolute error of the fit 3.2e-9.
template <class D, class V>
HWY_INLINE V exp_of_rest(D d, V r) {
  const V p = vec_polynomial(d, r, 0.5000000095f, 0.166665186f, 0.04166620507f, 0.008368917859f,
                             0.001395053996f);
  return hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), hn::Set(d, 1.0f));
}

/// e^r - 1; absolute error of the fit 4.9e-11.
template <class D, class V>
HWY_INLINE V expm1_of_rest(D d, V r) {
  const V p = vec_polynomial(d, r, 0.5000000078f, 0.1666666686f, 0.04166626934f, 0.008333264195f,
                             0.001394611753f, 0.0001991847f);
  return hn::MulAdd(hn::Mul(r, r), p, r);
}

/// 2^n from n + kRounder + bias, bias the 127 of the exponent field; n in [-126, 128], where 128
/// gives infinity.
template <class D, class V>
HWY_INLINE V power_of_2(D d, V rounded) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, rounded)));
}
constexpr float kBiasedRounder = kRounder + 127.0f;

/// e^x for x in [-87.3365, 89] or NaN, up to 2 ulp; infinite from 88.38 on.
template <class D, class V>
HWY_INLINE V exp_in_range(D d, V x) {
  const auto parts = exp_parts(d, x, kBiasedRounder);
  return hn::Mul(exp_of_rest(d, parts.r), power_of_2(d, parts.rounded));
}
constexpr float kExpLow = -87.3365f;  // the last one whose result is normal
constexpr float kExpHigh = 89.0f;

/// log(1 + f) + e·ln 2 for 1 + f in [√½, √2): f - f²/2 + f³·P(f), relative error of the fit 6e-9.
template <class D, class V>
HWY_INLINE V log_of_parts(D d, V f, V e) {
  const V p = vec_polynomial(d, f, 0.333333317f, -0.2500082098f, 0.2000122751f, -0.1662335962f,
                             0.1420174725f, -0.1316015183f, 0.1276163245f, -0.07634637805f);
  const V square = hn::Mul(f, f);
  V y = hn::MulAdd(hn::Mul(p, f), square, hn::Mul(e, hn::Set(d, kLn2Low)));
  y = hn::NegMulAdd(square, hn::Set(d, 0.5f), y);
  return hn::MulAdd(e, hn::Set(d, kLn2High), hn::Add(f, y));
}

/// x = 2^e · m with m in [√½, √2), for positive normal x.
template <class D, class V>
HWY_INLINE void split_exponent(D d, V x, V& e, V& m) {
  const hn::RebindToSigned<D> di;
  const auto sqrt_half = hn::Set(di, 0x3F3504F3);
  const auto shifted = hn::Sub(hn::BitCast(di, x), sqrt_half);
  e = hn::ConvertTo(d, hn::ShiftRight<23>(shifted));
  m = hn::BitCast(d, hn::Add(hn::And(shifted, hn::Set(di, 0x007FFFFF)), sqrt_half));
}

template <class D, class V>
HWY_INLINE V infinity(D d, V) {
  return hn::Set(d, std::numeric_limits<float>::infinity());
}

}  // namespace math_detail

/// e^x, 2 ulp.
template <class D, class V>
HWY_INLINE V vec_exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto parts =
      math_detail::exp_parts(d, vec_clamp(d, x, -104.0f, 89.0f), math_detail::kRounder);
  // 2^n in two factors, as n may be below or above what one exponent field holds.
  const auto n = hn::Sub(hn::BitCast(di, parts.rounded), hn::Set(di, math_detail::kRounderBits));
  const auto half = hn::ShiftRight<1>(n);
  const auto bias = hn::Set(di, 127);
  const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(n, half), bias)));
  return hn::Mul(hn::Mul(math_detail::exp_of_rest(d, parts.r), first), second);
}

/// e^x for x ≤ 0 (softmax: what is subtracted is the maximum), 2 ulp; results that would be
/// denormal are 0. NaN gives NaN.
template <class D, class V>
HWY_INLINE V vec_exp_nonpositive(D d, V x) {
  const auto tiny = hn::Lt(x, hn::Set(d, math_detail::kExpLow));
  // Below the range the polynomial may be anything but is then dropped.
  return hn::IfThenZeroElse(tiny, math_detail::exp_in_range(d, x));
}

/// e^x - 1, 3 ulp.
template <class D, class V>
HWY_INLINE V vec_expm1(D d, V x) {
  const auto parts =
      math_detail::exp_parts(d, vec_clamp(d, x, -18.0f, 88.8f), math_detail::kBiasedRounder - 1.0f);
  // Half of the result, so that 2^n fits up to the largest: 2^(n-1) (e^r - 1) + (2^(n-1) - 1/2).
  const V scale = math_detail::power_of_2(d, parts.rounded);
  const V half =
      hn::MulAdd(scale, math_detail::expm1_of_rest(d, parts.r), hn::Sub(scale, hn::Set(d, 0.5f)));
  const auto small = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-25f));
  return hn::IfThenElse(small, x, hn::Add(half, half));
}

/// Natural logarithm, 2 ulp; -inf at 0, NaN below.
template <class D, class V>
HWY_INLINE V vec_log(D d, V x) {
  const V zero = hn::Zero(d);
  const auto denormal = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  V e;
  V m;
  math_detail::split_exponent(d, hn::IfThenElse(denormal, hn::Mul(x, hn::Set(d, 0x1p23f)), x), e,
                              m);
  e = hn::IfThenElse(denormal, hn::Sub(e, hn::Set(d, 23.0f)), e);
  V y = math_detail::log_of_parts(d, hn::Sub(m, hn::Set(d, 1.0f)), e);
  y = hn::IfThenElse(hn::Lt(x, math_detail::infinity(d, x)), y, x);
  y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(math_detail::infinity(d, x)), y);
  return hn::IfThenElse(hn::Lt(x, zero), hn::NaN(d), y);
}

/// log(1 + x), 2 ulp; -inf at -1, NaN below.
template <class D, class V>
HWY_INLINE V vec_log1p(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(x, one);
  V e;
  V m;
  math_detail::split_exponent(d, u, e, m);
  // What the sum lost, scaled like m; above 2^24 it does not matter.
  const hn::RebindToSigned<D> di;
  const V lost = hn::IfThenElseZero(hn::Lt(x, hn::Set(d, 0x1p24f)), hn::Sub(x, hn::Sub(u, one)));
  const auto scale_bits =
      hn::Add(hn::Sub(hn::BitCast(di, m), hn::BitCast(di, u)), hn::BitCast(di, one));
  const V f = hn::MulAdd(lost, hn::BitCast(d, scale_bits), hn::Sub(m, one));
  V y = math_detail::log_of_parts(d, f, e);
  y = hn::IfThenElse(hn::Lt(x, math_detail::infinity(d, x)), y, x);
  y = hn::IfThenElse(hn::Eq(u, hn::Zero(d)), hn::Neg(math_detail::infinity(d, x)), y);
  y = hn::IfThenElse(hn::Lt(u, hn::Zero(d)), hn::NaN(d), y);
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 0x1p-25f)), x, y);
}

/// tanh, 3 ulp: h / (h + 1) with h = (e^2|x| - 1) / 2, and the sign of x.
template <class D, class V>
HWY_INLINE V vec_tanh(D d, V x) {
  const V a = vec_clamp(d, hn::Abs(x), 0.0f, 10.0f);
  const auto parts = math_detail::exp_parts(d, hn::Add(a, a), math_detail::kBiasedRounder - 1.0f);
  const V scale = math_detail::power_of_2(d, parts.rounded);
  const V half =
      hn::MulAdd(scale, math_detail::expm1_of_rest(d, parts.r), hn::Sub(scale, hn::Set(d, 0.5f)));
  return hn::CopySign(hn::Div(half, hn::Add(half, hn::Set(d, 1.0f))), x);
}

/// Error function, 2 ulp: x + x·P(x²) below 0.9, above it 1 - e^P(x) where e^P fits erfc; their
/// relative errors are 3e-10 and 2e-9.
template <class D, class V>
HWY_INLINE V vec_erf(D d, V x) {
  const V a = hn::Abs(x);
  const V small = hn::MulAdd(
      x,
      vec_polynomial(d, hn::Mul(x, x), 0.1283791668f, -0.376126351f, 0.1128371619f, -0.02686055682f,
                     0.005203957429f, -0.0008176599321f, 8.516716269e-5f),
      x);
  const V p = vec_polynomial(d, vec_clamp(d, a, 0.0f, 4.05f), -0.0001665086168f, -1.127796969f,
                             -0.6369765799f, -0.10411321f, 0.02231497112f, -0.003065425573f,
                             0.0001982126473f);
  const V large = hn::CopySign(hn::Sub(hn::Set(d, 1.0f), math_detail::exp_in_range(d, p)), x);
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.9f)), small, large);
}

/// 1 / (1 + e^-x), 3 ulp; 0 below -88.4.
template <class D, class V>
HWY_INLINE V vec_sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = math_detail::exp_in_range(
      d, vec_clamp(d, hn::Neg(x), math_detail::kExpLow, math_detail::kExpHigh));
  return hn::Div(one, hn::Add(one, e));
}

/// x / (1 + e^-x), 3 ulp; -0 below -88.4, NaN at -inf.
template <class D, class V>
HWY_INLINE V vec_silu(D d, V x) {
  const V e = math_detail::exp_in_range(
      d, vec_clamp(d, hn::Neg(x), math_detail::kExpLow, math_detail::kExpHigh));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

/// gelu, exact form: x·Φ(x). Absolute error ≤ 2^-23 of |x|, and 7 ulp of the result for x ≥ -2;
/// there is no cancellation for negative x. NaN at -inf.
/// Φ(-|x|) = e^P(|x|) with P of degree 9 fitted to ln Φ up to 6, weighted by Φ (2.2e-9); beyond it
/// falls on along a line, to 0.
template <class D, class V>
HWY_INLINE V vec_gelu(D d, V x) {
  const V a = hn::Abs(x);
  const V t = vec_clamp(d, a, 0.0f, 6.0f);
  V p = vec_polynomial(d, t, -0.6931471784f, -0.7978847359f, -0.3183076275f, -0.03634635996f,
                       0.004806515378f, 8.303460946e-6f, -0.0001959510623f, 5.160658734e-5f,
                       -6.565986e-6f, 3.513152989e-7f);
  p = hn::MulAdd(hn::Sub(t, a), hn::Set(d, 6.0f), p);
  const V tail = vec_exp_nonpositive(d, p);
  const V phi = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 1.0f), tail));
  return hn::Mul(x, phi);
}

/// gelu, tanh form: x·(1 + tanh u) / 2 = x / (1 + e^-2u), u = √(2/π)·(x + 0.044715 x³).
/// Absolute error ≤ 2^-22 of |x|. NaN at -inf.
template <class D, class V>
HWY_INLINE V vec_gelu_tanh(D d, V x) {
  // -2√(2/π) and that times 0.044715.
  const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, -0.0713548163f), hn::Set(d, -1.59576912f));
  const V e = math_detail::exp_in_range(
      d, vec_clamp(d, hn::Mul(x, cubic), math_detail::kExpLow, math_detail::kExpHigh));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

/// clamp(x + 3, 0, 6) / 6, 2 ulp for x > -2.
template <class D, class V>
HWY_INLINE V vec_hardsigmoid(D d, V x) {
  const V y = vec_clamp(d, hn::Add(x, hn::Set(d, 3.0f)), 0.0f, 6.0f);
  return hn::Mul(y, hn::Set(d, 1.0f / 6.0f));
}

/// x · clamp(x + 3, 0, 6) / 6, 2 ulp; NaN at -inf.
template <class D, class V>
HWY_INLINE V vec_hardswish(D d, V x) {
  const V y = vec_clamp(d, hn::Add(x, hn::Set(d, 3.0f)), 0.0f, 6.0f);
  return hn::Mul(hn::Mul(y, hn::Set(d, 1.0f / 6.0f)), x);
}

/// log(1 + e^(beta x)) / beta, x itself where beta x is above threshold; 3 ulp for beta = 1.
template <class D, class V>
HWY_INLINE V vec_softplus(D d, V x, float beta, float threshold) {
  const V scaled = hn::Mul(x, hn::Set(d, beta));
  const V y = hn::Div(vec_log1p(d, vec_exp(d, scaled)), hn::Set(d, beta));
  return hn::IfThenElse(hn::Gt(scaled, hn::Set(d, threshold)), x, y);
}

/// x · tanh(log(1 + e^x)), 4 ulp: x·w / (w + 2) with w = e^x (e^x + 2). NaN at -inf.
template <class D, class V>
HWY_INLINE V vec_mish(D d, V x) {
  const V two = hn::Set(d, 2.0f);
  // From 20 on the quotient is 1; clamped so that it does not overflow.
  const V e = vec_exp(d, vec_clamp(d, x, -104.0f, 20.0f));
  const V w = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(w, hn::Add(w, two)));
}

/// 1 / √x, both rounded exactly.
template <class D, class V>
HWY_INLINE V vec_rsqrt(D d, V x) {
  return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x));
}

/// arctangent, 3 ulp. Fit of atan(z)/z in z² over [0, 1], 2.4e-9; above 1 by π/2 - atan(1/x).
template <class D, class V>
HWY_INLINE V vec_atan(D d, V x) {
  const V a = hn::Abs(x);
  const V one = hn::Set(d, 1.0f);
  const auto inverted = hn::Lt(one, a);
  const V z = hn::IfThenElse(inverted, hn::Div(one, a), a);
  const V square = hn::Mul(z, z);
  const V p = vec_polynomial(d, square, -0.3333330187f, 0.1999863865f, -0.1426524567f,
                             0.1095757762f, -0.08419463219f, 0.05823462109f, -0.03145577354f,
                             0.0110644804f, -0.001827221965f);
  const V y = hn::MulAdd(hn::Mul(p, square), z, z);
  return hn::CopySign(hn::IfThenElse(inverted, hn::Sub(hn::Set(d, 1.57079637f), y), y), x);
}

namespace math_detail {

constexpr float kSinRange = 8192.0f;

/// sin of x + quarter·π/2 for |x| ≤ kSinRange: reduction by π/2 in four parts, whose products with
/// the quadrant (at most 13 bits) are exact but for the last.
template <class D, class V>
HWY_INLINE V sin_in_range(D d, V x, int32_t quarter) {
  const hn::RebindToSigned<D> di;
  const V rounded = hn::MulAdd(x, hn::Set(d, 0.636619772f), hn::Set(d, kRounder));
  const V n = hn::Sub(rounded, hn::Set(d, kRounder));
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.92p+0f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.fb4p-12f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.444p-24f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.68c234p-39f), r);
  const auto quadrant = hn::Add(hn::BitCast(di, rounded), hn::Set(di, quarter));
  const V square = hn::Mul(r, r);
  const V sine = hn::MulAdd(hn::Mul(vec_polynomial(d, square, -0.1666666664f, 0.008333329374f,
                                                   -0.0001983933099f, 2.718274371e-6f),
                                    square),
                            r, r);
  const V cosine =
      hn::MulAdd(hn::Mul(square, square),
                 vec_polynomial(d, square, 0.04166664681f, -0.001388736448f, 2.443809019e-5f),
                 hn::NegMulAdd(square, hn::Set(d, 0.5f), hn::Set(d, 1.0f)));
  const auto odd = hn::MaskFromVec(hn::BitCast(d, hn::ShiftRight<31>(hn::ShiftLeft<31>(quadrant))));
  const V y = hn::IfThenElse(odd, cosine, sine);
  const V sign = hn::BitCast(
      d, hn::And(hn::ShiftLeft<30>(quadrant), hn::Set(di, std::numeric_limits<int32_t>::min())));
  return hn::Xor(y, sign);
}

/// Replaces the elements of `y` whose argument is beyond the vector reduction, which models hardly
/// have. Each by itself, so that an element does not depend on its neighbours.
template <class D, class V>
HWY_NOINLINE V sin_far(D d, V x, V y, bool cosine) {
  HWY_ALIGN float arguments[HWY_MAX_BYTES / sizeof(float)];
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(x, d, arguments);
  hn::Store(y, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (std::abs(arguments[i]) <= kSinRange) continue;
    const auto v = static_cast<double>(arguments[i]);
    lanes[i] = static_cast<float>(cosine ? std::cos(v) : std::sin(v));
  }
  return hn::Load(d, lanes);
}

}  // namespace math_detail

/// sin and cos, 2 ulp; NaN at infinities.
template <class D, class V>
HWY_INLINE V vec_sin(D d, V x) {
  const V a = hn::Abs(x);
  // Where sin x rounds to x the sum of x and its cube would lose the sign of zero.
  const V y =
      hn::IfThenElse(hn::Lt(a, hn::Set(d, 0x1p-13f)), x, math_detail::sin_in_range(d, x, 0));
  if (hn::AllTrue(d, hn::Le(a, hn::Set(d, math_detail::kSinRange)))) return y;
  return math_detail::sin_far(d, x, y, false);
}
template <class D, class V>
HWY_INLINE V vec_cos(D d, V x) {
  const V y = math_detail::sin_in_range(d, x, 1);
  if (hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, math_detail::kSinRange)))) return y;
  return math_detail::sin_far(d, x, y, true);
}

/// The nearest f16, ties to even; beyond 65504 infinity, subnormals kept, NaN its own quiet one.
template <class D, class V>
HWY_INLINE V vec_round_to_half(D d, V x) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(di, x);
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
  const auto normal =
      hn::AndNot(hn::Set(di, 0x1FFF), hn::Add(magnitude, hn::Add(odd, hn::Set(di, 0xFFF))));
  // Below 2^-14 the last place is 2^-24, as it is of f32 in [0.5, 1).
  const auto half = hn::Set(d, 0.5f);
  const auto small = hn::BitCast(di, hn::Sub(hn::Add(hn::BitCast(d, magnitude), half), half));
  auto rounded = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x38800000)), small, normal);
  rounded =
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x477FF000)), rounded, hn::Set(di, 0x7F800000));
  rounded =
      hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7F800000)), hn::Set(di, 0x7FC00000), rounded);
  return hn::CopySign(hn::BitCast(d, rounded), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target guard

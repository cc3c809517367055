#include "kernels/elementwise/vectors.h"

#include "base/status.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/vectors.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of what follows.
#include "hwy/highway.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using D16 = hn::Rebind<uint16_t, D>;
using D8 = hn::Rebind<uint8_t, D>;

template <class Tag, typename T>
HWY_INLINE hn::Vec<Tag> load_n(Tag d, const T* p, size_t n) {
  return n == hn::Lanes(d) ? hn::LoadU(d, p) : load_partial(d, p, n);
}
template <class Tag, typename T>
HWY_INLINE void store_n(hn::Vec<Tag> v, Tag d, T* p, size_t n) {
  if (n == hn::Lanes(d)) {
    hn::StoreU(v, d, p);
  } else {
    store_partial(v, d, p, n);
  }
}

/// Calls step(i, n) for vectors of f32; n is less than a vector only in the last.
template <class Step>
HWY_INLINE void for_vectors(size_t size, Step step) {
  const size_t lanes = hn::Lanes(D());
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) step(i, lanes);
  if (i < size) step(i, size - i);
}

/// a != b, true for NaN as well: Ne is not on x86.
template <class V>
HWY_INLINE auto differ(V a, V b) {
  return hn::Not(hn::Eq(a, b));
}

template <class Test>
HWY_INLINE void test_each(const float* x, bool one_x, const float* y, bool one_y, size_t size,
                          bool* z, Test test) {
  const D d;
  const D8 bytes;
  const auto first_x = hn::Set(d, *x);
  const auto first_y = hn::Set(d, *y);
  auto* out = reinterpret_cast<uint8_t*>(z);
  for_vectors(size, [=](size_t i, size_t n) HWY_ATTR {
    const auto a = one_x ? first_x : load_n(d, x + i, n);
    const auto b = one_y ? first_y : load_n(d, y + i, n);
    const auto truth = hn::BitCast(DI(), hn::VecFromMask(d, test(d, a, b)));
    store_n(hn::DemoteTo(bytes, hn::And(truth, hn::Set(DI(), 1))), bytes, out + i, n);
  });
}

#define DH_TEST(op, expression)                   \
  case BinaryOp::op:                              \
    return test_each(x, one_x, y, one_y, size, z, \
                     [](auto d, auto a, auto b) HWY_ATTR { return (void(d), expression); })

void compare(BinaryOp op, const float* x, bool one_x, const float* y, bool one_y, size_t size,
             bool* z) {
  switch (op) {
    DH_TEST(kEq, hn::Eq(a, b));
    DH_TEST(kNe, differ(a, b));
    DH_TEST(kLt, hn::Lt(a, b));
    DH_TEST(kLe, hn::Le(a, b));
    DH_TEST(kGt, hn::Gt(a, b));
    DH_TEST(kGe, hn::Ge(a, b));
    DH_TEST(kLogicalAnd, hn::And(differ(a, hn::Zero(d)), differ(b, hn::Zero(d))));
    DH_TEST(kLogicalOr, hn::Or(differ(a, hn::Zero(d)), differ(b, hn::Zero(d))));
    DH_TEST(kLogicalXor, hn::Xor(differ(a, hn::Zero(d)), differ(b, hn::Zero(d))));
    default:
      DH_CHECK(false);
  }
}
#undef DH_TEST

void select(const bool* condition, const uint32_t* x, bool one_x, const uint32_t* y, bool one_y,
            size_t size, uint32_t* z) {
  const hn::RebindToUnsigned<D> d;
  const D8 bytes;
  const auto* flags = reinterpret_cast<const uint8_t*>(condition);
  const auto first_x = hn::Set(d, *x);
  const auto first_y = hn::Set(d, *y);
  for_vectors(size, [=](size_t i, size_t n) HWY_ATTR {
    const auto flag = hn::PromoteTo(d, load_n(bytes, flags + i, n));
    const auto a = one_x ? first_x : load_n(d, x + i, n);
    const auto b = one_y ? first_y : load_n(d, y + i, n);
    store_n(hn::IfThenElse(hn::Ne(flag, hn::Zero(d)), a, b), d, z + i, n);
  });
}

// The conversions below are those of convert.h, element for element.

void to_half(const float* x, size_t size, uint16_t* y) {
  const D d;
  const DI di;
  for_vectors(size, [=](size_t i, size_t n) HWY_ATTR {
    const auto bits = hn::BitCast(di, load_n(d, x + i, n));
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFFFFFF));
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(di, 0x8000));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
    const auto rounded = hn::Add(hn::Add(magnitude, odd), hn::Set(di, 0xFFF - 0x38000000));
    const auto small =
        hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f))),
                hn::Set(di, 0x3F000000));
    auto half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x38800000)), small,
                               hn::ShiftRight<13>(rounded));
    half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x477FF000)), half, hn::Set(di, 0x7C00));
    half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(di, 0x7F800000)), hn::Set(di, 0x7E00), half);
    store_n(hn::DemoteTo(D16(), hn::Or(sign, half)), D16(), y + i, n);
  });
}

void from_half(const uint16_t* x, size_t size, float* y) {
  const D d;
  const DI di;
  for_vectors(size, [=](size_t i, size_t n) HWY_ATTR {
    const auto bits = hn::PromoteTo(di, load_n(D16(), x + i, n));
    const auto magnitude = hn::And(bits, hn::Set(di, 0x7FFF));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(di, 0x8000)));
    const auto bias = hn::Set(di, 112 << 23);
    auto wide = hn::Add(hn::ShiftLeft<13>(magnitude), bias);
    // Infinity and NaN: the largest exponent, not 112 above it.
    wide = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x7C00)), wide, hn::Add(wide, bias));
    const auto small = hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24f));
    wide = hn::IfThenElse(hn::Lt(magnitude, hn::Set(di, 0x400)), hn::BitCast(di, small), wide);
    store_n(hn::BitCast(d, hn::Or(wide, sign)), d, y + i, n);
  });
}

void to_bfloat16(const float* x, size_t size, uint16_t* y) {
  const D d;
  const DI di;
  const hn::RebindToUnsigned<D> du;
  for_vectors(size, [=](size_t i, size_t n) HWY_ATTR {
    const auto v = load_n(d, x + i, n);
    const auto bits = hn::BitCast(du, v);
    const auto top = hn::ShiftRight<16>(bits);
    const auto odd = hn::And(top, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, odd), hn::Set(du, 0x7FFF)));
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    const auto result = hn::IfThenElse(nan, hn::Or(top, hn::Set(du, 0x40)), rounded);
    store_n(hn::DemoteTo(D16(), hn::BitCast(di, result)), D16(), y + i, n);
  });
}

void from_bfloat16(const uint16_t* x, size_t size, float* y) {
  const D d;
  const hn::RebindToUnsigned<D> du;
  for_vectors(size, [=](size_t i, size_t n) HWY_ATTR {
    const auto bits = hn::PromoteTo(du, load_n(D16(), x + i, n));
    store_n(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, y + i, n);
  });
}

WidthKernels get_width_kernels() {
  return {compare, select, to_half, from_half, to_bfloat16, from_bfloat16};
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {

HWY_EXPORT(get_width_kernels);

WidthKernels width_kernels() { return HWY_DYNAMIC_DISPATCH(get_width_kernels)(); }

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

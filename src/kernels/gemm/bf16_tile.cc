#include "kernels/gemm/bf16_tile.h"

#include <utility>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/bf16_tile.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, 16>;
using DU = hn::RebindToUnsigned<D>;
using V = hn::Vec<D>;
using VU = hn::Vec<DU>;
constexpr D kD;
constexpr DU kDU;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kVectors = 2;
constexpr int kColumns = kVectors * kLanes;
// Sums, both halves of two vectors of B, and both of A fit into 16 registers, or 32.
constexpr int kRows = HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64 ? 12 : 4;

HWY_INLINE V lower(VU pair) { return hn::BitCast(kD, hn::ShiftLeft<16>(pair)); }
HWY_INLINE V upper(VU pair) { return hn::BitCast(kD, hn::And(pair, hn::Set(kDU, 0xFFFF0000u))); }

template <int MR>
void tile(const Bf16TileArgs& args) {
  for (int64_t column = 0; column < kBf16PanelColumns; column += kColumns) {
    V sums[MR][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        sums[i][j] = hn::LoadU(kD, args.bias + column + j * kLanes);
      }
    }
    const uint32_t* b = args.b + column;
    for (int64_t p = 0; p < args.pairs; ++p) {
      V even[kVectors];
      V odd[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        const VU pair = hn::LoadU(kDU, b + j * kLanes);
        even[j] = lower(pair);
        odd[j] = upper(pair);
      }
      b += kBf16PanelColumns;
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) {
        const VU pair = hn::Set(kDU, args.a[i * args.lda + p]);
        const V a_even = lower(pair);
        const V a_odd = upper(pair);
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) {
          sums[i][j] = hn::MulAdd(a_even, even[j], sums[i][j]);
          sums[i][j] = hn::MulAdd(a_odd, odd[j], sums[i][j]);
        }
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        hn::StoreU(sums[i][j], kD, args.sums + i * kBf16PanelColumns + column + j * kLanes);
      }
    }
  }
}

template <int... I>
constexpr Bf16Table make_table(std::integer_sequence<int, I...>) {
  Bf16Table table{"bf16 emulated in f32", kRows, {}};
  ((table.rows[I + 1] = tile<I + 1>), ...);
  return table;
}

const Bf16Table* emulated_tiles() {
  static constexpr Bf16Table kTable = make_table(std::make_integer_sequence<int, kRows>());
  return &kTable;
}

/// Rounded, in the upper half.
HWY_INLINE VU rounded(V v) {
  const VU bits = hn::BitCast(kDU, v);
  const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kDU, 1));
  const VU nearest = hn::Add(bits, hn::Add(odd, hn::Set(kDU, 0x7FFF)));
  // NaN: its upper half, made quiet, so that it cannot become infinity.
  const VU quiet = hn::Or(bits, hn::Set(kDU, 0x00400000));
  return hn::IfThenElse(hn::RebindMask(kDU, hn::IsNaN(v)), quiet, nearest);
}

void pairs_of(const float* from, int64_t count, uint32_t* to) {
  const VU high = hn::Set(kDU, 0xFFFF0000u);
  int64_t i = 0;
  V even;
  V odd;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    hn::LoadInterleaved2(kD, from + i, even, odd);
    const VU pair = hn::Or(hn::ShiftRight<16>(rounded(even)), hn::And(rounded(odd), high));
    hn::StoreU(pair, kDU, to + i / 2);
  }
  if (i == count) return;
  HWY_ALIGN float rest[2 * kLanes] = {};
  std::memcpy(rest, from + i, static_cast<size_t>(count - i) * sizeof(float));
  hn::LoadInterleaved2(kD, rest, even, odd);
  const VU pair = hn::Or(hn::ShiftRight<16>(rounded(even)), hn::And(rounded(odd), high));
  HWY_ALIGN uint32_t out[kLanes];
  hn::Store(pair, kDU, out);
  std::memcpy(to + i / 2, out, static_cast<size_t>((count - i + 1) / 2) * sizeof(uint32_t));
}

}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
HWY_EXPORT(emulated_tiles);
HWY_EXPORT(pairs_of);

const Bf16Table& emulated_bf16_table() { return *HWY_DYNAMIC_DISPATCH(emulated_tiles)(); }

void round_to_pairs(const float* from, int64_t count, uint32_t* to) {
  HWY_DYNAMIC_DISPATCH(pairs_of)(from, count, to);
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

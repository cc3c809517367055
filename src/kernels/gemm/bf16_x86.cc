// AVX-512-BF16: a unit of its own, which Highway has no target for.
#include <utility>

#include "kernels/gemm/bf16_tile.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace downhaul::kernels {
namespace {

#define DH_BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

/// MR rows by one panel: 2 MR sums, two vectors of B, one of A.
template <int MR>
DH_BF16_TARGET void tile(const Bf16TileArgs& args) {
  __m512 sums[MR][2];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    sums[i][0] = _mm512_loadu_ps(args.bias);
    sums[i][1] = _mm512_loadu_ps(args.bias + 16);
  }
  const uint32_t* b = args.b;
  for (int64_t p = 0; p < args.pairs; ++p) {
    const auto b0 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b));
    const auto b1 = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + 16));
    b += kBf16PanelColumns;
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const auto a =
          reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(args.a[i * args.lda + p])));
      sums[i][0] = _mm512_dpbf16_ps(sums[i][0], a, b0);
      sums[i][1] = _mm512_dpbf16_ps(sums[i][1], a, b1);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    _mm512_storeu_ps(args.sums + i * kBf16PanelColumns, sums[i][0]);
    _mm512_storeu_ps(args.sums + i * kBf16PanelColumns + 16, sums[i][1]);
  }
}

template <int... I>
constexpr Bf16Table make_table(std::integer_sequence<int, I...>) {
  Bf16Table table{"bf16_14x32_avx512bf16", kMaxBf16TileRows, {}};
  ((table.rows[I + 1] = tile<I + 1>), ...);
  return table;
}

}  // namespace

const Bf16Table* native_bf16_table() {
  static constexpr Bf16Table kTable =
      make_table(std::make_integer_sequence<int, kMaxBf16TileRows>());
  static const bool has = __builtin_cpu_supports("avx512bf16") != 0;
  return has ? &kTable : nullptr;
}

}  // namespace downhaul::kernels

#else

namespace downhaul::kernels {

const Bf16Table* native_bf16_table() { return nullptr; }

}  // namespace downhaul::kernels

#endif

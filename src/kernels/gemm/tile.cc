#include "kernels/gemm/tile.h"

#include <utility>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/tile.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/activation-inl.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {

struct Shape {
  std::string_view name;
  int mr;
  int nr;
};
constexpr Shape shape_of_target() {
#define DH_GEMM(name, target, isa, mr, nr, reassociates) \
  if (HWY_TARGET == (target)) return {#name, mr, nr};
#include "kernels/gemm/kernels.inc"
#undef DH_GEMM
  return {"none", 1, 1};
}
constexpr Shape kShape = shape_of_target();

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr D kD;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kVectors = kShape.nr / kLanes;
constexpr int kPanelColumns = 32;
// Vectors of half the width, where a panel's tail may be that narrow.
constexpr bool kHasHalf = kLanes == 16;
using DHalf = hn::CappedTag<float, kHasHalf ? 8 : kLanes>;
using VHalf = hn::Vec<DHalf>;
constexpr DHalf kDHalf;
static_assert(kVectors >= 1 && kShape.nr % kLanes == 0 && kPanelColumns % kShape.nr == 0);
static_assert(kShape.mr <= kMaxTileRows);

#define DH_INLINE __attribute__((always_inline))

template <class Tag>
HWY_INLINE void store_some(Tag d, hn::Vec<Tag> v, float* to, int64_t count) {
  if (count >= static_cast<int64_t>(hn::MaxLanes(d))) {
    hn::StoreU(v, d, to);
  } else if (count > 0) {
    store_partial(v, d, to, static_cast<size_t>(count));
  }
}
template <class Tag>
HWY_INLINE hn::Vec<Tag> load_some(Tag d, const float* from, int64_t count) {
  if (count >= static_cast<int64_t>(hn::MaxLanes(d))) return hn::LoadU(d, from);
  if (count > 0) return load_partial(d, from, static_cast<size_t>(count));
  return hn::Zero(d);
}

/// Epilogue of rows that are in memory, see FinishFn.
void finish(const TileArgs& args, int rows, const float* from, int64_t width, int64_t column) {
  const Epilogue& e = *args.epilogue;
  const int64_t columns = HWY_MIN(args.columns - column, width);
  const V scale = hn::Set(kD, e.scale);
  with_activation(e.activation, e.lo, e.hi, [&](auto activation) HWY_ATTR {
    for (int i = 0; i < rows; ++i) {
      float* to = args.c + i * args.ldc + column;
      const float* operand = args.operand + i * args.operand_stride + column;
      for (int64_t j = 0; j < columns; j += kLanes) {
        V v = hn::Mul(hn::LoadU(kD, from + i * width + j), scale);
        if (e.combine == Combine::kNone) {
          v = activation(kD, v);
        } else {
          const V other = load_some(kD, operand + j, columns - j);
          if (e.combine == Combine::kAddBefore) v = hn::Add(v, other);
          v = activation(kD, v);
          if (e.combine == Combine::kAddAfter) v = hn::Add(v, other);
          if (e.combine == Combine::kMultiplyAfter) v = hn::Mul(v, other);
        }
        store_some(kD, v, to + j, columns - j);
      }
    }
  });
}

/// Sums of MR rows: NV vectors each, and half a vector more when H is 1: for the tails of panels on
/// AVX-512, where half a vector costs some CPUs half the time.
template <int MR, int NV, int H>
struct Sums {
  HWY_INLINE Sums() {}  // an implicit one would not be compiled for the target

  V full[MR][NV];
  VHalf half[MR];
};

/// Calls body(d, vector, row, first column of the vector) for all sums.
template <int MR, int NV, int H, class Body>
HWY_INLINE void for_sums(Sums<MR, NV, H>& sums, const Body& body) {
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) body(kD, sums.full[i][j], i, j * kLanes);
    if constexpr (H > 0) body(kDHalf, sums.half[i], i, NV * kLanes);
  }
}

template <class Vector>
HWY_INLINE VHalf lower_half(Vector v) {
  if constexpr (kHasHalf) {
    return hn::LowerHalf(kDHalf, v);
  } else {
    return v;
  }
}

/// sum += a * b. With 26 or 28 sums in the 32 registers of AVX-512 it is the instruction itself:
/// GCC would choose among its forms, let sums wander between registers and spill two in every step.
template <bool kPinned, class Vector>
HWY_INLINE void add_product(Vector a, Vector b, Vector& sum) {
#if HWY_TARGET == HWY_AVX3 && HWY_COMPILER_GCC
  if constexpr (kPinned) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return;
  }
#endif
  sum = hn::MulAdd(a, b, sum);
}

template <int MR, int NV, int H>
HWY_INLINE void step(const float* const (&rows)[MR], int64_t k, const float* b,
                     Sums<MR, NV, H>& sums) {
  constexpr bool kPinned = MR * NV >= 26;
  V bv[NV];
  VHalf bh;
#pragma GCC unroll 8
  for (int j = 0; j < NV; ++j) bv[j] = hn::LoadU(kD, b + j * kLanes);
  if constexpr (H > 0) bh = hn::LoadU(kDHalf, b + NV * kLanes);
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    const V av = hn::Set(kD, rows[i][k]);
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) add_product<kPinned>(av, bv[j], sums.full[i][j]);
    if constexpr (H > 0) {
      sums.half[i] = hn::MulAdd(lower_half(av), bh, sums.half[i]);
    }
  }
}

template <int MR, int NV, int H>
HWY_INLINE void accumulate(const float* const (&rows)[MR], int64_t count, const float* b,
                           int64_t ldb, const char*& prefetch, int lines, Sums<MR, NV, H>& sums) {
  int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
    for (int i = 0; i < lines; ++i) __builtin_prefetch(prefetch + 64 * i, 0, 2);
    prefetch += 64 * lines;
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      step(rows, k + u, b, sums);
      b += ldb;
    }
  }
  for (; k < count; ++k) {
    step(rows, k, b, sums);
    b += ldb;
  }
}

/// Columns of the panel from `column` on, as many as Sums has.
template <int MR, int NV, int H>
HWY_INLINE void tile(const TileArgs& args, int64_t column) {
  constexpr int kWidth = NV * kLanes + H * kLanes / 2;
  const int64_t columns = args.columns - column;
  Sums<MR, NV, H> sums;
  if (args.first && args.bias == nullptr) {
    for_sums(sums, [](auto d, auto& v, int, int) HWY_ATTR DH_INLINE { v = hn::Zero(d); });
  } else if (args.first) {
    for_sums(sums, [&](auto d, auto& v, int, int j)
                       HWY_ATTR DH_INLINE { v = hn::LoadU(d, args.bias + column + j); });
  } else {
    for_sums(sums, [&](auto d, auto& v, int i, int j) HWY_ATTR DH_INLINE {
      v = load_some(d, args.c + i * args.ldc + column + j, columns - j);
    });
  }

  // Stores would wait for their lines one after the other.
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kWidth; j += 16) {
      __builtin_prefetch(args.c + i * args.ldc + column + j, 1, 3);
    }
  }
  const Epilogue& e = *args.epilogue;
  if (args.last && e.combine != Combine::kNone) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kWidth; j += 16) {
        __builtin_prefetch(args.operand + i * args.operand_stride + column + j, 0, 3);
      }
    }
  }
  const char* prefetch = args.prefetch;
  const int lines = column == 0 ? args.prefetch_lines : 0;
  const float* rows[MR];
  const float* b = args.b + column;
  if (args.offsets == nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) rows[i] = args.a + i * args.lda;
    accumulate(rows, args.run, b, args.ldb, prefetch, lines, sums);
  } else {
    for (int64_t tap = 0; tap < args.taps; ++tap) {
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) {
        const int32_t offset = args.offsets[i * args.offsets_stride + tap];
        rows[i] = offset < 0 ? args.zeros : args.a + offset;
      }
      accumulate(rows, args.run, b, args.ldb, prefetch, lines, sums);
      b += args.run * args.ldb;
    }
  }

  const bool plain = e.activation == Activation::kNone || e.activation == Activation::kClamp ||
                     e.activation == Activation::kHardSwish;
  if (args.last && (!plain || e.scale != 1.0f || e.combine > Combine::kAddBefore)) {
    HWY_ALIGN float buffer[MR * kWidth + kLanes / 2];  // read in whole vectors
    for_sums(sums, [&](auto d, auto& v, int i, int j)
                       HWY_ATTR DH_INLINE { hn::StoreU(v, d, buffer + i * kWidth + j); });
    finish(args, MR, buffer, kWidth, column);
    return;
  }
  if (args.last && e.combine == Combine::kAddBefore) {
    const float* operand = args.operand + column;
    for_sums(sums, [&](auto d, auto& v, int i, int j) HWY_ATTR DH_INLINE {
      v = hn::Add(v, load_some(d, operand + i * args.operand_stride + j, columns - j));
    });
  }
  if (args.last && e.activation == Activation::kClamp) {
    for_sums(sums, [&](auto d, auto& v, int, int)
                       HWY_ATTR DH_INLINE { v = vec_clamp(d, v, e.lo, e.hi); });
  }
  if (args.last && e.activation == Activation::kHardSwish) {
    for_sums(sums, [&](auto d, auto& v, int, int) HWY_ATTR DH_INLINE { v = vec_hardswish(d, v); });
  }
  float* to = args.c + column;
  if (columns >= kWidth) {
    for_sums(sums, [&](auto d, auto& v, int i, int j)
                       HWY_ATTR DH_INLINE { hn::StoreU(v, d, to + i * args.ldc + j); });
    return;
  }
  for_sums(sums, [&](auto d, auto& v, int i, int j)
                     HWY_ATTR DH_INLINE { store_some(d, v, to + i * args.ldc + j, columns - j); });
}

template <int MR>
void tile_rows(const TileArgs& args) {
  for (int64_t column = 0; column < args.columns; column += kShape.nr) {
    const int64_t columns = args.columns - column;
    // The narrowest that holds them.
    if constexpr (kHasHalf) {
      if (columns <= kLanes) return tile<MR, 1, 0>(args, column);
      if (columns <= kLanes / 2 * 3) return tile<MR, 1, 1>(args, column);
    } else if (kVectors > 1 && columns <= kVectors / 2 * kLanes) {
      return tile<MR, (kVectors > 1 ? kVectors / 2 : 1), 0>(args, column);
    }
    tile<MR, kVectors, 0>(args, column);
  }
}

template <int... I>
constexpr TileTable make_table(std::integer_sequence<int, I...>) {
  TileTable table{kShape.name, kShape.mr, kShape.nr, {}, finish};
  ((table.rows[I + 1] = tile_rows<I + 1>), ...);
  return table;
}

const TileTable* tiles() {
  static constexpr TileTable kTable = make_table(std::make_integer_sequence<int, kShape.mr>());
  return &kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
#undef DH_INLINE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
HWY_EXPORT(tiles);

const TileTable& tile_table() { return *HWY_DYNAMIC_DISPATCH(tiles)(); }

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

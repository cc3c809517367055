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
static_assert(kVectors >= 1 && kShape.nr % kLanes == 0 && kPanelColumns % kShape.nr == 0);
static_assert(kShape.mr <= kMaxTileRows);

HWY_INLINE void store_some(V v, float* to, int64_t count) {
  if (count >= kLanes) {
    hn::StoreU(v, kD, to);
  } else if (count > 0) {
    store_partial(v, kD, to, static_cast<size_t>(count));
  }
}
HWY_INLINE V load_some(const float* from, int64_t count) {
  if (count >= kLanes) return hn::LoadU(kD, from);
  if (count > 0) return load_partial(kD, from, static_cast<size_t>(count));
  return hn::Zero(kD);
}

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
          const V other = load_some(operand + j, columns - j);
          if (e.combine == Combine::kAddBefore) v = hn::Add(v, other);
          v = activation(kD, v);
          if (e.combine == Combine::kAddAfter) v = hn::Add(v, other);
          if (e.combine == Combine::kMultiplyAfter) v = hn::Mul(v, other);
        }
        store_some(v, to + j, columns - j);
      }
    }
  });
}

template <int MR, int NV>
HWY_INLINE void step(const float* const (&rows)[MR], int64_t k, const float* b, V (&acc)[MR][NV]) {
  V bv[NV];
#pragma GCC unroll 8
  for (int j = 0; j < NV; ++j) bv[j] = hn::LoadU(kD, b + j * kLanes);
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    const V av = hn::Set(kD, rows[i][k]);
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(av, bv[j], acc[i][j]);
  }
}

template <int MR, int NV>
HWY_INLINE void accumulate(const float* const (&rows)[MR], int64_t count, const float* b,
                           int64_t ldb, const char*& prefetch, int lines, V (&acc)[MR][NV]) {
  int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
    for (int i = 0; i < lines; ++i) __builtin_prefetch(prefetch + 64 * i, 0, 2);
    prefetch += 64 * lines;
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      step<MR, NV>(rows, k + u, b, acc);
      b += ldb;
    }
  }
  for (; k < count; ++k) {
    step<MR, NV>(rows, k, b, acc);
    b += ldb;
  }
}

/// Columns [column, column + NV * kLanes) of the panel.
template <int MR, int NV>
HWY_INLINE void tile(const TileArgs& args, int64_t column) {
  const int64_t columns = args.columns - column;
  V acc[MR][NV];
  if (args.first) {
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) {
      const V start =
          args.bias == nullptr ? hn::Zero(kD) : hn::LoadU(kD, args.bias + column + j * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) acc[i][j] = start;
    }
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) {
        acc[i][j] = load_some(args.c + i * args.ldc + column + j * kLanes, columns - j * kLanes);
      }
    }
  }

  // Stores would wait for their lines one after the other.
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < NV * kLanes; j += 16) {
      __builtin_prefetch(args.c + i * args.ldc + column + j, 1, 3);
    }
  }
  const char* prefetch = args.prefetch;
  const int lines = column == 0 ? args.prefetch_lines : 0;
  const float* rows[MR];
  const float* b = args.b + column;
  if (args.offsets == nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) rows[i] = args.a + i * args.lda;
    accumulate<MR, NV>(rows, args.run, b, args.ldb, prefetch, lines, acc);
  } else {
    for (int64_t tap = 0; tap < args.taps; ++tap) {
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) {
        const int32_t offset = args.offsets[i * args.offsets_stride + tap];
        rows[i] = offset < 0 ? args.zeros : args.a + offset;
      }
      accumulate<MR, NV>(rows, args.run, b, args.ldb, prefetch, lines, acc);
      b += args.run * args.ldb;
    }
  }

  const Epilogue& e = *args.epilogue;
  const bool plain = e.activation == Activation::kNone || e.activation == Activation::kClamp;
  if (args.last && (!plain || e.scale != 1.0f || e.combine > Combine::kAddBefore)) {
    HWY_ALIGN float buffer[MR * NV * kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) hn::Store(acc[i][j], kD, buffer + (i * NV + j) * kLanes);
    }
    finish(args, MR, buffer, NV * kLanes, column);
    return;
  }
  if (args.last && e.combine == Combine::kAddBefore) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) {
        acc[i][j] = hn::Add(acc[i][j],
                            load_some(args.operand + i * args.operand_stride + column + j * kLanes,
                                      columns - j * kLanes));
      }
    }
  }
  if (args.last && e.activation == Activation::kClamp) {
    const V lo = hn::Set(kD, e.lo);
    const V hi = hn::Set(kD, e.hi);
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) acc[i][j] = vec_clamp(kD, acc[i][j], lo, hi);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    float* to = args.c + i * args.ldc + column;
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) store_some(acc[i][j], to + j * kLanes, columns - j * kLanes);
  }
}

template <int MR>
void tile_rows(const TileArgs& args) {
  constexpr int kHalf = kVectors > 1 ? kVectors / 2 : 1;
  for (int64_t column = 0; column < args.columns; column += kShape.nr) {
    if (args.columns - column <= kHalf * kLanes) {
      tile<MR, kHalf>(args, column);
    } else {
      tile<MR, kVectors>(args, column);
    }
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
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
HWY_EXPORT(tiles);

const TileTable& tile_table() { return *HWY_DYNAMIC_DISPATCH(tiles)(); }

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

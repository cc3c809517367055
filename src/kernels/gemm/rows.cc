#include "kernels/gemm/rows.h"

#include <algorithm>

#include "kernels/gemm/tile.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/rows.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr D kD;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kSums = 16;               // partial sums of one result, on every target
constexpr int kParts = kSums / kLanes;  // vectors that hold them
#if HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kAccumulators = 16;
#else
constexpr int kAccumulators = 8;
#endif
constexpr int kMaxM = 4;
constexpr int64_t kLine = 16;  // floats of a cache line

constexpr int columns_at_once(int m) {
  const int fit = kAccumulators / (m * kParts);
  return fit >= 4 ? 4 : (fit >= 2 ? 2 : 1);
}

HWY_INLINE V load_some(const float* from, int64_t count) {
  if (count >= kLanes) return hn::LoadU(kD, from);
  if (count > 0) return load_partial(kD, from, static_cast<size_t>(count));
  return hn::Zero(kD);
}

/// 0+8, 1+9, ... then 0+4, ... 0+2, 1+3, 0+1.
HWY_INLINE float sum_of(const V (&parts)[kParts]) {
  HWY_ALIGN float lanes[kSums];
  for (int p = 0; p < kParts; ++p) hn::Store(parts[p], kD, lanes + p * kLanes);
  for (int half = kSums / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

/// N columns (rows of B) from `column` on, by M rows of A from `row` on.
template <int M, int N>
HWY_INLINE void dot(const RowsArgs& args, int row, int64_t column) {
  V acc[M][N][kParts];
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
#pragma GCC unroll 16
      for (int p = 0; p < kParts; ++p) acc[i][j][p] = hn::Zero(kD);
    }
  }
  const float* a = args.a + row * args.lda;
  const float* b = args.b + column * args.ldb;
  int64_t k = 0;
  for (; k + kSums <= args.k; k += kSums) {
    // Two groups of rows ahead, at the same place: together they are one stream.
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) __builtin_prefetch(b + (2 * N + j) * args.ldb + k, 0, 2);
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) {
      V bv[N];
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) bv[j] = hn::LoadU(kD, b + j * args.ldb + k + p * kLanes);
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        const V av = hn::LoadU(kD, a + i * args.lda + k + p * kLanes);
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) acc[i][j][p] = hn::MulAdd(av, bv[j], acc[i][j][p]);
      }
    }
  }
  if (k < args.k) {
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) {
      const int64_t at = k + p * kLanes;
#pragma GCC unroll 4
      for (int i = 0; i < M; ++i) {
        const V av = load_some(a + i * args.lda + at, args.k - at);
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) {
          const V bv = load_some(b + j * args.ldb + at, args.k - at);
          acc[i][j][p] = hn::MulAdd(av, bv, acc[i][j][p]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < M; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      args.sums[(row + i) * args.width + column + j] = sum_of(acc[i][j]);
    }
  }
}

template <int M>
void dot_rows(const RowsArgs& args, int row, int64_t begin, int64_t end) {
  constexpr int kN = columns_at_once(M);
  int64_t j = begin;
  for (; j + kN <= end; j += kN) dot<M, kN>(args, row, j);
  for (; j < end; ++j) dot<M, 1>(args, row, j);
}

void rows_nk(const RowsArgs& args) {
  // All rows of A take a few rows of B while these are near.
  constexpr int64_t kStep = 4;
  const bool one_pass = args.m <= kMaxM;
  for (int64_t j = 0; j < args.columns; j += one_pass ? args.columns : kStep) {
    const int64_t end = one_pass ? args.columns : HWY_MIN(j + kStep, args.columns);
    for (int row = 0; row < args.m; row += kMaxM) {
      switch (HWY_MIN(args.m - row, kMaxM)) {
        case 1:
          dot_rows<1>(args, row, j, end);
          break;
        case 2:
          dot_rows<2>(args, row, j, end);
          break;
        case 3:
          dot_rows<3>(args, row, j, end);
          break;
        default:
          dot_rows<4>(args, row, j, end);
          break;
      }
    }
  }
}

/// K rows of B into the sums of all rows of A.
template <int K>
HWY_INLINE void axpy(const RowsArgs& args, int64_t k) {
  const float* b = args.b + k * args.ldb;
  for (int64_t j = 0; j < args.columns; j += kLanes) {
    const int64_t count = args.columns - j;
    V bv[K];
    // The next K rows: what runs along a row stops looking ahead at the end of each page.
    if (K > 1 && j % kLine == 0) {
#pragma GCC unroll 8
      for (int u = 0; u < K; ++u) __builtin_prefetch(b + (K + u) * args.ldb + j, 0, 2);
    }
#pragma GCC unroll 8
    for (int u = 0; u < K; ++u) bv[u] = load_some(b + u * args.ldb + j, count);
    for (int i = 0; i < args.m; ++i) {
      const float* a = args.a + i * args.lda + k;
      float* sum = args.sums + i * args.width + j;
      V acc = hn::LoadU(kD, sum);
#pragma GCC unroll 8
      for (int u = 0; u < K; ++u) acc = hn::MulAdd(hn::Set(kD, a[u]), bv[u], acc);
      hn::StoreU(acc, kD, sum);
    }
  }
}

void rows_kn(const RowsArgs& args) {
  int64_t k = 0;
  for (; k + 8 <= args.k; k += 8) axpy<8>(args, k);
  for (; k < args.k; ++k) axpy<1>(args, k);
}

const RowsTable* rows() {
  static constexpr RowsTable kTable{rows_nk, rows_kn};
  return &kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
HWY_EXPORT(rows);

const RowsTable& rows_table() { return *HWY_DYNAMIC_DISPATCH(rows)(); }

namespace {

constexpr int64_t kMinForThreads = int64_t{1} << 17;  // multiply-adds; bound by memory

/// The epilogue of columns [column, column + columns), whose sums have their bias.
void store(const TileTable& tiles, const float* sums, int64_t width, int64_t m, int64_t column,
           int64_t columns, float* c, int64_t ldc, const Epilogue& e) {
  TileArgs args;
  args.epilogue = &e;
  args.ldc = ldc;
  args.operand_stride = e.operand_stride;
  for (int64_t j = 0; j < columns;) {
    const int64_t at = column + j;
    args.columns = columns - j;
    args.c = c + at;
    if (e.head_dim > 0) {
      args.columns = std::min(args.columns, e.head_dim - at % e.head_dim);
      args.c = c + at / e.head_dim * e.head_stride + at % e.head_dim;
    }
    args.operand = e.operand == nullptr ? nullptr : e.operand + at;
    // `finish` takes up to a width of columns; the sums of one row may be longer.
    tiles.finish(args, static_cast<int>(m), sums + j, width, 0);
    j += args.columns;
  }
}

}  // namespace

void gemm_rows_nk(const float* a, int64_t lda, int64_t m, const float* b, int64_t ldb, int64_t n,
                  int64_t k, const float* bias, float* c, int64_t ldc, const Epilogue& epilogue,
                  ThreadPool& pool) {
  constexpr int64_t kWidth = 64;
  const RowsTable& table = rows_table();
  const TileTable& tiles = tile_table();
  const int64_t blocks = (n + kWidth - 1) / kWidth;
  const bool small = m * n * std::max<int64_t>(1, k) < kMinForThreads;
  const int64_t chunk = small ? blocks : std::max<int64_t>(1, blocks / (8 * pool.num_threads()));
  pool.run(blocks, chunk, [&](int64_t begin, int64_t end, int) {
    // As wide again, since the last columns are read as whole vectors.
    alignas(64) float sums[kMaxRows * kWidth + 64] = {};
    for (int64_t block = begin; block < end; ++block) {
      const int64_t column = block * kWidth;
      const int64_t columns = std::min(kWidth, n - column);
      table.nk({a, lda, static_cast<int>(m), b + column * ldb, ldb, k, columns, sums, kWidth});
      for (int64_t i = 0; bias != nullptr && i < m; ++i) {
        for (int64_t j = 0; j < columns; ++j) sums[i * kWidth + j] += bias[column + j];
      }
      store(tiles, sums, kWidth, m, column, columns, c, ldc, epilogue);
    }
  });
}

void gemm_rows_kn(const float* a, int64_t lda, int64_t m, const float* b, int64_t ldb, int64_t n,
                  int64_t k, const float* bias, float* c, int64_t ldc, const Epilogue& epilogue,
                  ThreadPool& pool) {
  // Sums of all rows stay in the first cache.
  constexpr int64_t kSums = kMaxRows * 512;
  const int64_t kWidth = kSums / std::max<int64_t>(1, m) / 64 * 64;
  const RowsTable& table = rows_table();
  const TileTable& tiles = tile_table();
  const bool small = m * n * std::max<int64_t>(1, k) < kMinForThreads;
  // Runs of a row of B as long as threads allow: short ones start the prefetcher for nothing.
  const int64_t parts = small || pool.num_threads() == 1 ? 1 : 2 * pool.num_threads();
  const int64_t share = (n + parts - 1) / parts;
  const int64_t width = std::clamp<int64_t>((share + 63) / 64 * 64, 64, kWidth);
  const int64_t blocks = (n + width - 1) / width;
  pool.run(blocks, small ? blocks : 1, [&](int64_t begin, int64_t end, int) {
    alignas(64) float sums[kSums + 64];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t column = block * width;
      const int64_t columns = std::min(width, n - column);
      for (int64_t i = 0; i < m; ++i) {
        float* row = sums + i * kWidth;
        std::fill_n(row, kWidth, 0.0f);
        if (bias != nullptr) std::copy_n(bias + column, columns, row);
      }
      table.kn({a, lda, static_cast<int>(m), b + column, ldb, k, columns, sums, kWidth});
      store(tiles, sums, kWidth, m, column, columns, c, ldc, epilogue);
    }
  });
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

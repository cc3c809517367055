#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/epilogue.h"

/// Register tiles: what gemm.cc, matmul.cc and attention.cc loop over.
namespace downhaul::kernels {

inline constexpr int kMaxTileRows = 14;

/// Some rows by one panel of up to 32 columns: C = epilogue(start + A B) over a part of k.
struct TileArgs {
  // A: row i at a + i * lda, `run` values. With offsets: for each tap in [0, taps), row i at
  // a + offsets[i * offsets_stride + tap], or at zeros.
  const float* a = nullptr;
  int64_t lda = 0;
  const int32_t* offsets = nullptr;
  int64_t offsets_stride = 0;
  const float* zeros = nullptr;
  int64_t taps = 1;
  int64_t run = 0;
  // B: row k at b + k * ldb, readable for the panel's full 32 columns.
  const float* b = nullptr;
  int64_t ldb = 0;
  const float* bias = nullptr;  // 32 values; null: zeros
  float* c = nullptr;
  int64_t ldc = 0;
  int64_t columns = 0;  // of the panel, that exist
  bool first = true;    // sums start as bias, else as what C has
  bool last = true;     // epilogue is applied
  const Epilogue* epilogue = nullptr;
  const float* operand = nullptr;  // first element of the tile
  int64_t operand_stride = 0;
  // Lines to fetch into L2 meanwhile: `prefetch_lines` after each four steps of k.
  const char* prefetch = nullptr;
  int prefetch_lines = 0;
};

using TileFn = void (*)(const TileArgs&);
/// The epilogue alone, for `rows` rows of sums in memory, `width` apart (a multiple of 16 floats,
/// all readable), which are the columns of `args` from `column` on.
using FinishFn = void (*)(const TileArgs& args, int rows, const float* sums, int64_t width,
                          int64_t column);

struct TileTable {
  std::string_view name;
  int mr = 0;
  int nr = 0;
  TileFn rows[kMaxTileRows + 1] = {};  // index: number of rows, 1 ... mr
  FinishFn finish = nullptr;
};

/// The table of the ISA in use.
const TileTable& tile_table();

}  // namespace downhaul::kernels

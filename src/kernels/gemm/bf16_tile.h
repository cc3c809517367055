#pragma once

#include <cstdint>
#include <string_view>

/// Register tiles of bf16 products: what bf16.cc loops over.
namespace downhaul::kernels {

inline constexpr int kMaxBf16TileRows = 14;
inline constexpr int64_t kBf16PanelColumns = 32;

/// sums[i][j] = bias[j] + sum over pairs of A's row i and B's column j; 32 columns.
struct Bf16TileArgs {
  const uint32_t* a = nullptr;  // pairs of k; row i at a + i * lda
  int64_t lda = 0;
  int64_t pairs = 0;
  const uint32_t* b = nullptr;  // [pairs][32]
  const float* bias = nullptr;  // [32]
  float* sums = nullptr;        // [rows][32]
};
using Bf16TileFn = void (*)(const Bf16TileArgs&);

struct Bf16Table {
  std::string_view name;
  int mr = 0;
  Bf16TileFn rows[kMaxBf16TileRows + 1] = {};  // index: number of rows, 1 … mr
};

/// By the CPU's own instruction; null when the build or the CPU has none.
const Bf16Table* native_bf16_table();
/// In f32, for the ISA in use.
const Bf16Table& emulated_bf16_table();

/// `count` floats to pairs, the last one padded with 0; NaN stays NaN.
void round_to_pairs(const float* from, int64_t count, uint32_t* to);

}  // namespace downhaul::kernels

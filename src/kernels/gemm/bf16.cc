#include "kernels/gemm/bf16.h"

#include <algorithm>

#include "base/status.h"
#include "kernels/gemm/bf16_tile.h"
#include "kernels/gemm/pack.h"
#include "kernels/gemm/tile.h"
#include "kernels/isa.h"

namespace downhaul::kernels {
namespace {

static_assert(kBf16PanelColumns == kPanel);

// Rounded rows of A that stay in the second cache beside a panel of B.
constexpr int64_t kMaxBlockOfA = 192 * 1024;  // bytes
// Below this many multiply-adds (about 10 us) waking a thread costs more than it gives.
constexpr int64_t kMinForThreads = int64_t{1} << 20;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t pairs_of_k(int64_t k) { return ceil_div(k, 2); }
/// Rows of A: whole lines, and not a power of two apart.
int64_t row_pairs(int64_t k) {
  const int64_t lines = ceil_div(pairs_of_k(k), 16);
  return (lines % 2 == 0 ? lines + 1 : lines) * 16;
}
int64_t panel_words(int64_t k) { return kPanel * (1 + pairs_of_k(k)); }

const Bf16Table& bf16_table() {
  const Bf16Table* native = native_bf16_table();
  return native != nullptr && active_isa() == Isa::kAvx512 ? *native : emulated_bf16_table();
}

}  // namespace

bool has_bf16_products() { return &bf16_table() == native_bf16_table(); }

size_t packed_bf16_bytes(int64_t n, int64_t k) {
  return static_cast<size_t>(ceil_div(n, kPanel) * panel_words(k)) * sizeof(uint32_t);
}

void pack_b_bf16(const BSource& b, int64_t n, int64_t k, const float* bias, void* dst,
                 ThreadPool& pool) {
  DH_CHECK(b.run == 0);
  constexpr int64_t kStrip = 64;  // values of k at once, on the stack
  pool.run(ceil_div(n, kPanel), 1, [&](int64_t begin, int64_t end, int) {
    alignas(64) float rows[kStrip * kPanel];
    alignas(64) float two[2 * kPanel];
    for (int64_t panel = begin; panel < end; ++panel) {
      auto* words = static_cast<uint32_t*>(dst) + panel * panel_words(k);
      auto* head = reinterpret_cast<float*>(words);
      const int64_t column = panel * kPanel;
      for (int64_t j = 0; j < kPanel; ++j) {
        head[j] = bias != nullptr && column + j < n ? bias[column + j] : 0.0f;
      }
      words += kPanel;
      for (int64_t first = 0; first < k; first += kStrip) {
        const int64_t depth = std::min(kStrip, k - first);
        BSource strip = b;
        strip.data += first * b.k_stride;
        pack_columns(strip, n, depth, column, rows);
        for (int64_t i = 0; i < depth; i += 2) {
          for (int64_t j = 0; j < kPanel; ++j) {
            two[2 * j] = rows[i * kPanel + j];
            two[2 * j + 1] = i + 1 < depth ? rows[(i + 1) * kPanel + j] : 0.0f;
          }
          round_to_pairs(two, 2 * kPanel, words);
          words += kPanel;
        }
      }
    }
  });
}

size_t gemm_bf16_scratch_bytes(int64_t m, int64_t k) {
  return static_cast<size_t>(m * row_pairs(k)) * sizeof(uint32_t);
}

void gemm_bf16(const float* a, int64_t lda, int64_t m, const void* packed_b, int64_t n, int64_t k,
               float* c, int64_t ldc, const Epilogue& epilogue, void* scratch, ThreadPool& pool) {
  DH_CHECK(epilogue.head_dim == 0);
  if (m == 0 || n == 0) return;
  const Bf16Table& table = bf16_table();
  const auto finish = tile_table().finish;
  const int64_t stride = row_pairs(k);
  const bool small = m * n * std::max<int64_t>(1, k) < kMinForThreads;
  auto* rounded = static_cast<uint32_t*>(scratch);
  pool.run(m, small ? m : std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, k)),
           [&](int64_t begin, int64_t end, int) {
             for (int64_t i = begin; i < end; ++i) {
               round_to_pairs(a + i * lda, k, rounded + i * stride);
             }
           });
  const int64_t tiles = ceil_div(m, table.mr);  // cut evenly
  const int64_t tile_bytes = ceil_div(m, tiles) * stride * static_cast<int64_t>(sizeof(uint32_t));
  const int64_t block = std::clamp<int64_t>(kMaxBlockOfA / tile_bytes, 1, tiles);
  const int64_t panels = ceil_div(n, kPanel);
  const auto run_tile = [&](int64_t tile, int64_t panel) {
    alignas(64) float sums[kMaxBf16TileRows * kPanel];
    const int64_t row = m * tile / tiles;
    const auto rows = static_cast<int>(m * (tile + 1) / tiles - row);
    const auto* words = static_cast<const uint32_t*>(packed_b) + panel * panel_words(k);
    const int64_t column = panel * kPanel;
    table.rows[rows]({.a = rounded + row * stride,
                      .lda = stride,
                      .pairs = pairs_of_k(k),
                      .b = words + kPanel,
                      .bias = reinterpret_cast<const float*>(words),
                      .sums = sums});
    TileArgs args;
    args.c = c + row * ldc + column;
    args.ldc = ldc;
    args.columns = std::min(kPanel, n - column);
    args.epilogue = &epilogue;
    args.operand_stride = epilogue.operand_stride;
    if (epilogue.operand != nullptr) {
      args.operand = epilogue.operand + row * epilogue.operand_stride + column;
    }
    finish(args, rows, sums, kPanel, 0);
  };
  // Four tasks for each thread even out what disturbs one of them.
  const int64_t chunk = small ? panels : std::max<int64_t>(1, panels / (4 * pool.num_threads()));
  pool.run(panels, chunk, [&](int64_t begin, int64_t end, int) {
    for (int64_t first = 0; first < tiles; first += block) {
      for (int64_t panel = begin; panel < end; ++panel) {
        for (int64_t tile = first; tile < std::min(tiles, first + block); ++tile) {
          run_tile(tile, panel);
        }
      }
    }
  });
}

}  // namespace downhaul::kernels

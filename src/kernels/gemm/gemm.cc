#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "kernels/gemm/tile.h"

namespace downhaul::kernels {
namespace {

// What a core's second-level cache holds of A and of the panel at hand with room to spare: 1 MiB
// is the least of current server cores; phones have half and still stream well.
constexpr int64_t kMaxBlockOfA = 96 * 1024;  // floats
constexpr int64_t kMaxDepth = 1024;          // steps of k before sums go to memory and back
// Below this many multiply-adds (about 20 us) waking a thread costs more than it gives.
constexpr int64_t kMinForThreads = int64_t{1} << 20;
constexpr int64_t kMinBytesToPrefetch = 256 * 1024;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// One product, cut into blocks. A block of k is a range of values of one run, or whole taps.
struct Plan {
  TileArgs base;  // what all tiles share
  int64_t images = 1;
  int64_t rows = 0;  // per image
  int64_t image_stride = 0;
  int64_t n = 0;
  int64_t k = 0;
  const float* packed = nullptr;
  float* c = nullptr;
  const Epilogue* epilogue = nullptr;

  const TileTable* table = nullptr;
  int64_t tiles_per_image = 0;
  int64_t row_tiles = 0;
  int64_t panels = 0;
  int64_t k_blocks = 1;
  int64_t tiles_per_task = 0;
  int64_t panels_per_task = 0;
  bool prefetch = false;
};

/// Columns of one head that a panel may cross: then it is computed aside and copied in pieces.
bool scatters_across(const Epilogue& e) { return e.head_dim > 0 && e.head_dim % kPanel != 0; }

void choose_blocks(Plan& p, int num_threads) {
  p.table = &tile_table();
  p.tiles_per_image = ceil_div(p.rows, p.table->mr);
  p.row_tiles = p.images * p.tiles_per_image;
  p.panels = ceil_div(p.n, kPanel);
  const bool sums_can_wait = !scatters_across(*p.epilogue) && p.epilogue->operand != p.c;
  if (sums_can_wait && p.k > kMaxDepth) {
    p.k_blocks = p.base.offsets == nullptr ? ceil_div(p.k, kMaxDepth)
                                           : std::min(p.base.taps, ceil_div(p.k, kMaxDepth));
  }
  const int64_t depth = ceil_div(p.k, p.k_blocks);
  const int64_t rows_per_tile = ceil_div(p.rows, std::max<int64_t>(1, p.tiles_per_image));
  const int64_t tiles_in_cache =
      std::max<int64_t>(4, kMaxBlockOfA / std::max<int64_t>(1, depth * rows_per_tile));
  p.tiles_per_task = std::min(p.row_tiles, tiles_in_cache);
  p.panels_per_task = p.panels;
  if (num_threads == 1) return;
  // Four tasks for each thread even out what disturbs one of them.
  const int64_t wanted = 4 * num_threads;
  const int64_t row_tasks = ceil_div(p.row_tiles, p.tiles_per_task);
  if (row_tasks >= wanted) {
    // Equal tasks, a multiple of the threads.
    const int64_t tasks = ceil_div(row_tasks, num_threads) * num_threads;
    p.tiles_per_task = ceil_div(p.row_tiles, tasks);
    return;
  }
  if (p.row_tiles >= 4 * p.panels && p.row_tiles >= wanted) {
    p.tiles_per_task = ceil_div(p.row_tiles, wanted);
    return;
  }
  p.panels_per_task = std::max<int64_t>(1, ceil_div(p.panels * row_tasks, wanted));
}

struct Block {
  int64_t first;  // in values of k
  int64_t count;
};
/// Blocks of k are cut evenly, on multiples of four or between taps.
Block k_block(const Plan& p, int64_t index) {
  const int64_t unit = p.base.offsets == nullptr ? 4 : p.base.run;
  const int64_t units = ceil_div(p.k, std::max<int64_t>(1, unit));
  const int64_t first = units * index / p.k_blocks * unit;
  const int64_t end = units * (index + 1) / p.k_blocks * unit;
  return {first, std::min(end, p.k) - first};
}

/// A panel whose columns belong to several heads: through a buffer.
void run_across_heads(const Plan& p, TileArgs args, int64_t rows, int64_t row, int64_t panel) {
  alignas(64) float buffer[kMaxTileRows * kPanel];
  const Epilogue& e = *p.epilogue;
  args.c = buffer;
  args.ldc = kPanel;
  p.table->rows[rows](args);
  for (int64_t j = 0; j < args.columns;) {
    const int64_t column = panel * kPanel + j;
    const int64_t inside = column % e.head_dim;
    const int64_t count = std::min(args.columns - j, e.head_dim - inside);
    float* to = p.c + column / e.head_dim * e.head_stride + row * p.base.ldc + inside;
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(buffer + i * kPanel + j, count, to + i * p.base.ldc);
    }
    j += count;
  }
}

/// Row tiles [tile_begin, tile_end) of one panel over one block of k.
void run_panel(const Plan& p, const Block& block, bool first, bool last, int64_t panel,
               int64_t tile_begin, int64_t tile_end, const float* next) {
  const Epilogue& e = *p.epilogue;
  TileArgs args = p.base;
  const float* bias = p.packed + panel * kPanel * (p.k + 1);
  args.b = bias + kPanel * (1 + block.first);
  args.bias = bias;
  args.first = first;
  args.last = last;
  args.columns = std::min(kPanel, p.n - panel * kPanel);
  int64_t first_tap = 0;
  if (args.offsets != nullptr) {
    first_tap = args.run == 0 ? 0 : block.first / args.run;
    args.taps = args.run == 0 ? 0 : block.count / args.run;
  } else {
    args.run = block.count;
  }
  const bool across = scatters_across(e);
  const int64_t column = panel * kPanel;
  float* c =
      p.c + (e.head_dim > 0 ? column / e.head_dim * e.head_stride + column % e.head_dim : column);
  // The next block is fetched by as many tiles as there are, an even share each.
  const int64_t fetches = block.count / 4;
  const int64_t tiles = tile_end - tile_begin;
  if (p.prefetch && next != nullptr && fetches > 0) {
    args.prefetch_lines = static_cast<int>(ceil_div(8, tiles));
  }
  int64_t fetched = 0;
  int64_t image = tile_begin / p.tiles_per_image;
  int64_t in_image = tile_begin % p.tiles_per_image;
  for (int64_t t = tile_begin; t < tile_end; ++t) {
    const int64_t begin = p.rows * in_image / p.tiles_per_image;
    const int64_t end = p.rows * (in_image + 1) / p.tiles_per_image;
    const int64_t row = image * p.rows + begin;
    if (args.offsets == nullptr) {
      args.a = p.base.a + row * args.lda + block.first;
    } else {
      args.a = p.base.a + image * p.image_stride;
      args.offsets = p.base.offsets + begin * args.offsets_stride + first_tap;
    }
    args.c = c + row * args.ldc;
    if (e.operand != nullptr) args.operand = e.operand + row * e.operand_stride + column;
    if (args.prefetch_lines > 0) {
      if (fetched >= block.count * 2) args.prefetch_lines = 0;
      args.prefetch = reinterpret_cast<const char*>(next) + fetched * 64;
      fetched += fetches * args.prefetch_lines;
    }
    if (across) {
      run_across_heads(p, args, end - begin, row, panel);
    } else {
      p.table->rows[end - begin](args);
    }
    if (++in_image == p.tiles_per_image) {
      in_image = 0;
      ++image;
    }
  }
}

void run_task(const Plan& p, int64_t tile_begin, int64_t tile_end, int64_t panel_begin,
              int64_t panel_end) {
  for (int64_t kb = 0; kb < p.k_blocks; ++kb) {
    const Block block = k_block(p, kb);
    for (int64_t panel = panel_begin; panel < panel_end; ++panel) {
      // What comes after: the next panel, then the next block of the first one, then what is
      // likely this thread's next task.
      const bool turn = panel + 1 == panel_end && kb + 1 < p.k_blocks;
      const int64_t then = turn ? panel_begin : panel + 1;
      const int64_t then_k =
          turn ? k_block(p, kb + 1).first : (panel + 1 == panel_end ? 0 : block.first);
      const float* next =
          then < p.panels ? p.packed + (then * (p.k + 1) + 1 + then_k) * kPanel : nullptr;
      run_panel(p, block, kb == 0, kb + 1 == p.k_blocks, panel, tile_begin, tile_end, next);
    }
  }
}

void run(Plan& p, ThreadPool& pool) {
  const int64_t m = p.images * p.rows;
  if (m == 0 || p.n == 0) return;
  const bool small = m * p.n * std::max<int64_t>(1, p.k) < kMinForThreads;
  p.base.epilogue = p.epilogue;
  p.base.operand_stride = p.epilogue->operand_stride;
  p.base.ldb = kPanel;
  choose_blocks(p, small ? 1 : pool.num_threads());
  p.prefetch = static_cast<int64_t>(packed_b_bytes(p.n, p.k)) >= kMinBytesToPrefetch;
  const int64_t row_tasks = ceil_div(p.row_tiles, p.tiles_per_task);
  const int64_t panel_tasks = ceil_div(p.panels, p.panels_per_task);
  const int64_t tasks = row_tasks * panel_tasks;
  pool.run(tasks, small ? tasks : 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t tile = task / panel_tasks * p.tiles_per_task;
      const int64_t panel = task % panel_tasks * p.panels_per_task;
      run_task(p, tile, std::min(tile + p.tiles_per_task, p.row_tiles), panel,
               std::min(panel + p.panels_per_task, p.panels));
    }
  });
}

}  // namespace

void gemm(const float* a, int64_t lda, int64_t m, const float* packed_b, int64_t n, int64_t k,
          float* c, int64_t ldc, const Epilogue& epilogue, ThreadPool& pool) {
  Plan plan;
  plan.base.a = a;
  plan.base.lda = lda;
  plan.base.ldc = ldc;
  plan.rows = m;
  plan.n = n;
  plan.k = k;
  plan.packed = packed_b;
  plan.c = c;
  plan.epilogue = &epilogue;
  run(plan, pool);
}

void gemm_indirect(const IndirectA& a, int64_t m, const float* packed_b, int64_t n, float* c,
                   int64_t ldc, const Epilogue& epilogue, ThreadPool& pool) {
  if (a.rows == 0) return;
  Plan plan;
  plan.base.a = a.base;
  plan.base.offsets = a.offsets;
  plan.base.offsets_stride = a.taps;
  plan.base.zeros = a.zeros;
  plan.base.taps = a.taps;
  plan.base.run = a.run;
  plan.base.ldc = ldc;
  plan.images = m / a.rows;
  plan.rows = a.rows;
  plan.image_stride = a.image_stride;
  plan.n = n;
  plan.k = a.taps * a.run;
  plan.packed = packed_b;
  plan.c = c;
  plan.epilogue = &epilogue;
  run(plan, pool);
}

}  // namespace downhaul::kernels

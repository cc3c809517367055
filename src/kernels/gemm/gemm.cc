#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <limits>

#include "kernels/gemm/tile.h"

namespace downhaul::kernels {
namespace {

// What a core's second-level cache holds of A beside the panel at hand and the next one: 1 MiB is
// the least of current server cores; phones have half and still stream well.
constexpr int64_t kMaxBlockOfA = 160 * 1024;  // floats
constexpr int64_t kMaxDepth = 768;            // steps of k before sums go to memory and back
// Below this many multiply-adds (about 20 us) waking a thread costs more than it gives.
constexpr int64_t kMinForThreads = int64_t{1} << 20;
constexpr int64_t kMinBytesToPrefetch = 256 * 1024;
// Rows of A whose distance is a multiple of this (bytes) share a few sets of the first cache and
// push each other out before their lines are used up. They are copied, a tile at a time, for as
// many panels as make it worth while and as the second cache holds.
constexpr int64_t kBadStride = 2048;
constexpr int64_t kPanelsPerCopy = 4;
constexpr int64_t kCopyStride = kMaxDepth + 16;

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
  bool copies_a = false;
};

/// Columns of one head that a panel may cross: then it is computed aside and copied in pieces.
bool scatters_across(const Epilogue& e) { return e.head_dim > 0 && e.head_dim % kPanel != 0; }

/// Panels of a task, at most `most`, such that the thread with the most tasks has the least to do.
int64_t even_share(int64_t panels, int64_t row_tasks, int64_t num_threads, int64_t most) {
  int64_t best = most;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t share = most; share > 0; --share) {
    const int64_t tasks = ceil_div(panels, share) * row_tasks;
    const int64_t longest = ceil_div(tasks, num_threads) * share;
    if (longest < least) {
      best = share;
      least = longest;
    }
  }
  return best;
}

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
  p.copies_a = p.base.offsets == nullptr && p.panels >= kPanelsPerCopy && p.rows > 4 &&
               depth <= kMaxDepth &&
               p.base.lda * static_cast<int64_t>(sizeof(float)) % kBadStride == 0;
  const int64_t rows_per_tile = ceil_div(p.rows, std::max<int64_t>(1, p.tiles_per_image));
  const int64_t tiles_in_cache =
      std::max<int64_t>(4, kMaxBlockOfA / std::max<int64_t>(1, depth * rows_per_tile));
  // As few as that allows, and even ones: each reads all of B.
  const int64_t row_blocks = ceil_div(p.row_tiles, tiles_in_cache);
  p.tiles_per_task = ceil_div(p.row_tiles, row_blocks);
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
  p.panels_per_task = even_share(
      p.panels, row_tasks, num_threads,
      std::max<int64_t>(p.copies_a ? kPanelsPerCopy : 1, ceil_div(p.panels * row_tasks, wanted)));
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

/// The row tiles and panels of one task.
struct Part {
  int64_t tile_begin;
  int64_t tile_end;
  int64_t panel_begin;
  int64_t panel_end;
};

struct Rows {
  int64_t begin;  // in C
  int64_t count;
  int64_t image;
  int64_t in_image;
};
/// Tiles cut the rows of each image evenly.
Rows rows_of(const Plan& p, int64_t tile) {
  const int64_t image = tile / p.tiles_per_image;
  const int64_t t = tile % p.tiles_per_image;
  const int64_t begin = p.rows * t / p.tiles_per_image;
  return {image * p.rows + begin, p.rows * (t + 1) / p.tiles_per_image - begin, image, begin};
}

/// One block of k of one part.
class BlockRun {
 public:
  BlockRun(const Plan& plan, const Part& part, int64_t k_block_index)
      : p_(plan),
        part_(part),
        block_(k_block(plan, k_block_index)),
        last_(k_block_index + 1 == plan.k_blocks),
        args_(plan.base) {
    args_.first = k_block_index == 0;
    args_.last = last_;
    const int64_t run = args_.run;
    if (args_.offsets == nullptr) {
      args_.run = block_.count;
    } else if (run > 0) {
      args_.offsets += block_.first / run;
      args_.taps = block_.count / run;
    } else {
      args_.taps = 0;
    }
    // What comes after this block for the same thread.
    next_k_ = last_ ? 0 : k_block(plan, k_block_index + 1).first;
    lines_ = static_cast<int>(ceil_div(8, part.tile_end - part.tile_begin));
  }

  void run() {
    const int64_t group = p_.copies_a ? kPanelsPerCopy : 1;
    alignas(64) float copy[kMaxTileRows * kCopyStride];
    for (int64_t first = part_.panel_begin; first < part_.panel_end; first += group) {
      const int64_t end = std::min(first + group, part_.panel_end);
      for (int64_t tile = part_.tile_begin; tile < part_.tile_end; ++tile) {
        const Rows rows = rows_of(p_, tile);
        set_rows(rows, copy);
        for (int64_t panel = first; panel < end; ++panel) run_tile(tile, rows, panel, group);
      }
    }
  }

 private:
  void set_rows(const Rows& rows, float* copy) {
    if (args_.offsets != nullptr) {
      args_.a = p_.base.a + rows.image * p_.image_stride;
      return;
    }
    args_.a = p_.base.a + rows.begin * p_.base.lda + block_.first;
    if (!p_.copies_a) return;
    for (int64_t i = 0; i < rows.count; ++i) {
      std::copy_n(args_.a + i * p_.base.lda, block_.count, copy + i * kCopyStride);
    }
    args_.a = copy;
    args_.lda = kCopyStride;
  }

  void run_tile(int64_t tile, const Rows& rows, int64_t panel, int64_t group) {
    const Epilogue& e = *p_.epilogue;
    TileArgs args = args_;
    const int64_t column = panel * kPanel;
    const float* bias = p_.packed + column * (p_.k + 1);
    args.b = bias + kPanel * (1 + block_.first);
    args.bias = bias;
    args.columns = std::min(kPanel, p_.n - column);
    if (args.offsets != nullptr) args.offsets += rows.in_image * args.offsets_stride;
    if (e.operand != nullptr) args.operand = e.operand + rows.begin * e.operand_stride + column;
    if (p_.prefetch) set_prefetch(args, tile, panel, group);
    if (scatters_across(e)) {
      run_across_heads(p_, args, rows.count, rows.begin, panel);
      return;
    }
    args.c = p_.c + rows.begin * args.ldc +
             (e.head_dim > 0 ? column / e.head_dim * e.head_stride + column % e.head_dim : column);
    p_.table->rows[rows.count](args);
  }

  /// The panels to come are fetched by all row tiles together, an even share each.
  void set_prefetch(TileArgs& args, int64_t tile, int64_t panel, int64_t group) const {
    const int64_t share = block_.count / 4 * lines_;  // lines
    const int64_t offset = (tile - part_.tile_begin) * share;
    if (offset >= block_.count * (kPanel / 16)) return;
    int64_t then = panel + group;
    int64_t then_k = block_.first;
    if (then >= part_.panel_end) {
      // The next block of the first panels, or what is likely this thread's next part.
      if (!last_) then = part_.panel_begin + (then - part_.panel_end);
      then_k = next_k_;
    }
    if (then >= p_.panels) return;
    args.prefetch = reinterpret_cast<const char*>(
        p_.packed + (then * (p_.k + 1) + 1 + then_k) * kPanel + offset * 16);
    args.prefetch_lines = lines_;
  }

  const Plan& p_;
  const Part& part_;
  Block block_;
  bool last_;
  TileArgs args_;
  int64_t next_k_ = 0;
  int lines_ = 0;
};

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
      const Part part{tile, std::min(tile + p.tiles_per_task, p.row_tiles), panel,
                      std::min(panel + p.panels_per_task, p.panels)};
      for (int64_t block = 0; block < p.k_blocks; ++block) BlockRun(p, part, block).run();
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

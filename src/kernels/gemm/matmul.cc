#include <algorithm>

#include "base/status.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/pack.h"
#include "kernels/gemm/tile.h"

namespace downhaul::kernels {
namespace {

constexpr int64_t kMinForThreads = int64_t{1} << 19;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t floats) { return ceil_div(floats, 16) * 16; }

/// Rows of A that are not contiguous are copied, a tile at a time, so their copy stays near.
bool copies_a(const Matmul& c) { return c.a.column_stride != 1 && c.k > 1; }

int64_t floats_per_worker(const Matmul& c) {
  return kPanel * c.k + (copies_a(c) ? round_up(kMaxTileRows * c.k) : 0);
}

struct Grid {
  int64_t batches;
  int64_t panels;
  int64_t row_tiles;
  int64_t row_parts;  // parts of M, when there are too few panels for all threads
};
Grid grid_of(const Matmul& c, const TileTable& table, int num_threads) {
  Grid g{c.batch[0] * c.batch[1], ceil_div(c.n, kPanel), ceil_div(c.m, table.mr), 1};
  const int64_t tasks = g.batches * g.panels;
  const int64_t wanted = num_threads == 1 ? 1 : 4 * num_threads;
  if (tasks > 0 && tasks < wanted) {
    g.row_parts = std::clamp<int64_t>(wanted / tasks, 1, std::max<int64_t>(1, g.row_tiles / 4));
  }
  return g;
}

void copy_rows(const Operand& a, const float* from, int64_t rows, int64_t k, float* to) {
  for (int64_t j = 0; j < k; ++j) {
    const float* column = from + j * a.column_stride;
    for (int64_t i = 0; i < rows; ++i) to[i * k + j] = column[i * a.row_stride];
  }
}

/// One panel of one product of the batch, a part of its rows.
void run_panel(const Matmul& call, const TileTable& table, const Grid& grid, int64_t batch,
               int64_t panel, int64_t part, float* scratch) {
  const int64_t i0 = batch / call.batch[1];
  const int64_t i1 = batch % call.batch[1];
  const auto offset = [&](const int64_t(&stride)[2]) { return i0 * stride[0] + i1 * stride[1]; };
  const float* a = call.a.data + offset(call.a.batch_stride);
  const float* b = call.b.data + offset(call.b.batch_stride);
  float* c = call.c + offset(call.c_batch_stride) + panel * kPanel;
  const Epilogue& e = call.epilogue;
  pack_columns({b, call.b.column_stride, call.b.row_stride}, call.n, call.k, panel * kPanel,
               scratch);
  float* copy = scratch + kPanel * call.k;
  TileArgs args;
  args.run = call.k;
  args.b = scratch;
  args.ldb = kPanel;
  args.ldc = call.c_row_stride;
  args.columns = std::min(kPanel, call.n - panel * kPanel);
  args.epilogue = &e;
  args.operand_stride = e.operand_stride;
  const int64_t first = grid.row_tiles * part / grid.row_parts;
  const int64_t last = grid.row_tiles * (part + 1) / grid.row_parts;
  for (int64_t t = first; t < last; ++t) {
    const int64_t row = call.m * t / grid.row_tiles;
    const int64_t rows = call.m * (t + 1) / grid.row_tiles - row;
    args.a = a + row * call.a.row_stride;
    args.lda = call.a.row_stride;
    if (copies_a(call)) {
      copy_rows(call.a, args.a, rows, call.k, copy);
      args.a = copy;
      args.lda = call.k;
    }
    args.c = c + row * call.c_row_stride;
    if (e.operand != nullptr) {
      args.operand =
          e.operand + offset(call.operand_batch_stride) + row * e.operand_stride + panel * kPanel;
    }
    table.rows[rows](args);
  }
}

}  // namespace

size_t matmul_scratch_bytes(const Matmul& call, int num_threads) {
  return static_cast<size_t>(floats_per_worker(call) * num_threads) * sizeof(float);
}

void matmul(const Matmul& call, void* scratch, ThreadPool& pool) {
  DH_CHECK(call.epilogue.head_dim == 0);
  const TileTable& table = tile_table();
  const Grid grid = grid_of(call, table, pool.num_threads());
  if (call.m == 0) return;
  const int64_t tasks = grid.batches * grid.panels * grid.row_parts;
  const int64_t work = call.m * std::min(kPanel, call.n) * std::max<int64_t>(1, call.k);
  const bool small = tasks * work / grid.row_parts < kMinForThreads;
  const int64_t chunk = small ? tasks : std::max<int64_t>(1, kMinForThreads / 4 / work);
  pool.run(tasks, chunk, [&](int64_t begin, int64_t end, int worker) {
    float* own = static_cast<float*>(scratch) + worker * floats_per_worker(call);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t part = task % grid.row_parts;
      const int64_t panel = task / grid.row_parts % grid.panels;
      run_panel(call, table, grid, task / grid.row_parts / grid.panels, panel, part, own);
    }
  });
}

}  // namespace downhaul::kernels

#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "ir/graph.h"

/// Loops over tensors: rows of elementwise operators with broadcasting, and copies.
namespace downhaul {

/// Nested loops over a row-major result and strided operands. Dimensions that can be walked as one
/// are merged, so that the innermost loop is long.
struct LoopNest {
  Sizes sizes;                                ///< at least one dimension
  std::vector<std::vector<int64_t>> strides;  ///< per operand, in elements, as long as `sizes`

  int64_t inner_size() const { return sizes.back(); }
  int64_t inner_stride(size_t operand) const { return strides[operand].back(); }
};

LoopNest make_loops(Sizes sizes, std::vector<std::vector<int64_t>> strides);
/// Loops of operands that broadcast to `result` (stride 0 where they do).
LoopNest broadcast_loops(const Sizes& result, std::initializer_list<const Tensor*> operands);
/// Row-major strides of `sizes`, aligned at the right to `result` and 0 where they broadcast.
std::vector<int64_t> broadcast_strides(const Sizes& sizes, const Sizes& result);

/// Calls row(result_offset, operand_offsets) for each innermost row, in order.
template <typename Row>
void for_each_row(const LoopNest& loops, Row row) {
  for (const int64_t s : loops.sizes) {
    if (s == 0) return;
  }
  const size_t outer = loops.sizes.size() - 1;
  std::vector<int64_t> index(outer, 0);
  std::vector<int64_t> at(loops.strides.size(), 0);
  int64_t result = 0;
  while (true) {
    row(result, at.data());
    result += loops.inner_size();
    size_t d = outer;
    while (d > 0) {
      --d;
      ++index[d];
      for (size_t o = 0; o < at.size(); ++o) at[o] += loops.strides[o][d];
      if (index[d] < loops.sizes[d]) break;
      for (size_t o = 0; o < at.size(); ++o) at[o] -= loops.strides[o][d] * loops.sizes[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (outer == 0) return;
  }
}

/// Fills `out` (row-major) from elements of `in` at `offset` + the strides (in elements, may be
/// negative); out's sizes are the loop. All elements must lie inside `in`.
void strided_copy(const Tensor& in, int64_t offset, std::vector<int64_t> strides, Tensor& out);

/// Per dimension of the result: which index of the operand it shows, or -1 for the fill value.
using IndexTables = std::vector<std::vector<int64_t>>;
/// out[i, j, …] = in[tables[0][i], tables[1][j], …], or the fill value (one element of the dtype,
/// may be null when no table has -1). Same rank.
void copy_by_tables(const Tensor& in, const IndexTables& tables, const void* fill, Tensor& out);
/// 0, 1, …, size-1.
std::vector<int64_t> identity_table(int64_t size);

/// A row-major copy with dimensions in the order `dims`.
Tensor permuted(const Tensor& in, std::span<const int64_t> dims);
/// Image operators compute in NCHW: the tensor itself, or its permuted copy.
Tensor to_nchw(const Tensor& in, bool nhwc);
Tensor from_nchw(const Tensor& in, bool nhwc);

}  // namespace downhaul

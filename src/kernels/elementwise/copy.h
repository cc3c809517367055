#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "kernels/elementwise/loops.h"
#include "kernels/image/image.h"

/// Moving elements of any type. The functions that move neither allocate nor fail; source and
/// result must not overlap, unless said otherwise. Sizes of elements are 1, 2, 4 or 8 bytes.
namespace downhaul::kernels {

/// Which element of the source goes where; strides in elements, 0 to repeat, negative to go back.
struct Copy {
  PermutePlan plan;
  int64_t from = 0;  ///< first element of the source and of the result
  int64_t to = 0;
};

/// result[to + Σ i·to_strides] = source[from + Σ i·from_strides] for every i below `sizes`.
/// Nothing when more dimensions are left, after merging those that go together, than fit.
std::optional<Copy> plan_copy(Extents sizes, Extents from_strides, Extents to_strides, int64_t from,
                              int64_t to, int64_t element_size);

void run_copy(const Copy& copy, const void* source, void* result, ThreadPool& pool);

/// The copies that make up an operator on row-major tensors. Each gives what plan_copy gives.
///
/// Part `index` of a concatenation: the source of `sizes` goes to `start` along `axis` of a result
/// that is `total` long there. Also what slice_scatter writes (step > 1).
std::optional<Copy> plan_concat_part(Extents sizes, int64_t axis, int64_t start, int64_t total,
                                     int64_t step, int64_t element_size);
/// Elements start, start + step, … of `axis`, `count` of them.
std::optional<Copy> plan_slice(Extents sizes, int64_t axis, int64_t start, int64_t step,
                               int64_t count, int64_t element_size);
/// A source that broadcasts to `result` sizes (aligned at the right).
std::optional<Copy> plan_expand(Extents sizes, Extents result, int64_t element_size);
/// The whole source, `repeats` times along each dimension; repeats.size() >= sizes.size(). One copy
/// for 2·rank dimensions.
std::optional<Copy> plan_repeat(Extents sizes, Extents repeats, int64_t element_size);
/// Dimensions with a true entry reversed.
std::optional<Copy> plan_flip(Extents sizes, std::span<const bool> reversed, int64_t element_size);
/// What constant padding leaves of the source: `before` may be negative (cropped). The rest of the
/// result is to be filled first.
std::optional<Copy> plan_pad_inside(Extents sizes, Extents before, Extents after,
                                    int64_t element_size);

/// Any composition of shifts, reflections, clamping and padding: dimension d of the result shows
/// index tables[d][i] of the source, or the fill value where that is -1. Tables stay the caller's.
struct TableCopy {
  int rank = 0;
  int64_t element_size = 4;
  std::array<int64_t, Loops::kMaxRank> sizes{};  ///< of the result
  std::array<int64_t, Loops::kMaxRank> source_strides{};
  std::array<const int64_t*, Loops::kMaxRank> tables{};
};
/// `fill` is one element; may be null when no table has -1.
void run_table_copy(const TableCopy& copy, const void* source, const void* fill, void* result,
                    ThreadPool& pool);

/// `count` elements equal to the one at `value`.
void fill(int64_t element_size, int64_t count, const void* value, void* result, ThreadPool& pool);

/// The last two dimensions [rows, columns] of `batch` matrices, zeros above the diagonal column -
/// row = diagonal (lower), or below it. May be in place.
void triangle(int64_t element_size, int64_t batch, int64_t rows, int64_t columns, int64_t diagonal,
              bool upper, const void* source, void* result, ThreadPool& pool);

}  // namespace downhaul::kernels

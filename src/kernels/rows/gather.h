#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "kernels/elementwise/loops.h"

/// Elements picked by index tensors. Nothing here reads or writes outside of the buffers, whatever
/// the indices say: each function returns false when one was out of range, and then leaves zeros
/// (or, when writing, nothing) in its place. Nothing allocates or fails.
namespace downhaul::kernels {

/// i32 or i64 numbers.
struct Indices {
  const void* data = nullptr;
  Element element = Element::kI64;
  /// -1 is the last one, as in Python; otherwise negative ones are out of range.
  bool from_end = false;
};

/// result [outer, count, row] = source [outer, size, row] at indices [count]; rows of `row_bytes`.
/// embedding: outer = 1; index_select along a dimension: outer in front of it, row_bytes behind it.
bool gather_rows(int64_t outer, int64_t size, int64_t row_bytes, int64_t count,
                 const Indices& indices, const void* source, void* result, ThreadPool& pool);

/// result [batch, 1, row] = source [batch, size, row] at index [batch].
bool batched_select(int64_t batch, int64_t size, int64_t row_bytes, const Indices& index,
                    const void* source, void* result, ThreadPool& pool);

/// gather: result [sizes of index] = source at the same place but index along `axis`; source is no
/// smaller than index in the other dimensions.
struct Gather {
  int rank = 1;
  int axis = 0;
  int64_t element_size = 4;
  std::array<int64_t, Loops::kMaxRank> source_sizes{};
  std::array<int64_t, Loops::kMaxRank> index_sizes{};
};
bool gather(const Gather& call, const Indices& indices, const void* source, void* result,
            ThreadPool& pool);

/// Indexing with several index tensors, as self[i, :, j] of Python (index and index_put of the IR).
/// The picked elements stand at [before, B, after]: B is the broadcast shape of the index tensors,
/// `before` and `after` are kept dimensions of the source.
struct IndexCall {
  static constexpr int kMaxIndices = 4;

  int64_t element_size = 4;
  int num_indices = 0;
  /// To be set before the call; in the order of the indexed dimensions.
  std::array<Indices, kMaxIndices> indices{};
  std::array<int64_t, kMaxIndices> sizes{};    ///< of the indexed dimensions of the source
  std::array<int64_t, kMaxIndices> strides{};  ///< theirs, in elements
  Loops index_loops;                           ///< over B; an operand per index tensor, then values
  Loops before;                                ///< operands: source, values
  Loops after;
};
/// `index_sizes` has an entry per dimension of the source: the shape of its index tensor, or
/// nothing where the dimension is kept. `values` broadcasts to the picked shape (index: leave it
/// out). Nothing when there are more index tensors or dimensions than fit.
std::optional<IndexCall> plan_index(Extents source,
                                    std::span<const std::optional<Extents>> index_sizes,
                                    std::optional<Extents> values, int64_t element_size);
/// result [before, B, after], row-major.
bool index(const IndexCall& call, const void* source, void* result, ThreadPool& pool);
/// `target`, which already holds self, at the picked places = values. Element by element in order,
/// so that of several values for one place the last stays.
bool index_put(const IndexCall& call, const void* values, void* target);
/// The same with += in the type (bool: or), which is not f16 or bf16.
bool index_add(const IndexCall& call, Element element, const void* values, void* target);

}  // namespace downhaul::kernels

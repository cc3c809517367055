#pragma once

#include <array>
#include <cstdint>

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

/// Indexing with several index tensors (index, index_put of the IR): the picked elements stand at
/// [before, B, after], where `before` and `after` are kept dimensions of the source, merged as far
/// as they can be, and B is the broadcast shape of the index tensors.
struct IndexCall {
  static constexpr int kMaxIndices = 4;

  int64_t element_size = 4;
  int num_indices = 0;
  Loops index_loops;  ///< over B; one operand per index tensor
  std::array<Indices, kMaxIndices> indices{};
  std::array<int64_t, kMaxIndices> sizes{};    ///< of the indexed dimensions of the source
  std::array<int64_t, kMaxIndices> strides{};  ///< theirs, in elements
  Loops before;                                ///< operand 0: strides in the source
  Loops after;
};
/// result [before, B, after], row-major.
bool index(const IndexCall& call, const void* source, void* result, ThreadPool& pool);
/// target, which already holds self, at the picked places = values, with strides as the loops'
/// second operands say (before, after) and the last operand of index_loops (B). Element by element
/// in order, so the last of equal places stays. With `accumulate` adds, of this type.
bool index_put(const IndexCall& call, const void* values, bool accumulate, Element element,
               void* target);

}  // namespace downhaul::kernels

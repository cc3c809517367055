#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"

/// Loops of elementwise kernels: one result and its operands, each with strides of its own.
namespace downhaul::kernels {

/// Types of elements, little-endian; bool is a byte of 0 or 1.
enum class Element : uint8_t { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64 };
int64_t element_size(Element element);

/// Dimensions over the result, outermost first, those that can be walked as one merged. Strides
/// count elements; an operand that broadcasts has stride 0.
struct Loops {
  static constexpr int kMaxRank = 8;
  static constexpr int kMaxOperands = 8;

  int rank = 1;
  int num_operands = 0;
  int64_t count = 0;  ///< elements of the result
  std::array<int64_t, kMaxRank> sizes{};
  std::array<int64_t, kMaxRank> result_strides{};
  std::array<std::array<int64_t, kMaxRank>, kMaxOperands> strides{};

  int64_t inner_size() const { return sizes[static_cast<size_t>(rank - 1)]; }
  int64_t inner_stride(int operand) const {
    return strides[static_cast<size_t>(operand)][static_cast<size_t>(rank - 1)];
  }
  int64_t inner_result_stride() const { return result_strides[static_cast<size_t>(rank - 1)]; }
};

using Extents = std::span<const int64_t>;

/// A row-major result of `sizes` and row-major operands that broadcast to it (aligned at the right,
/// dimensions equal or 1). Nothing when there are too many operands, or more dimensions are left
/// than kMaxRank.
std::optional<Loops> broadcast_loops(Extents sizes, std::span<const Extents> operands);

/// The same with given strides, as long as `sizes`.
std::optional<Loops> strided_loops(Extents sizes, Extents result_strides,
                                   std::span<const Extents> operand_strides);

/// Strides in elements of a tensor without gaps, outermost dimension first.
std::vector<int64_t> row_major(Extents sizes);

/// Calls f.template operator()<T>() with an unsigned type of 1, 2, 4 or 8 bytes.
template <typename F>
void with_size(int64_t element_size, F f) {
  switch (element_size) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      DH_CHECK(false);
  }
}

/// True when the elements in the order of the loops are one run.
bool is_contiguous(const Loops& loops, std::span<const int64_t, Loops::kMaxRank> strides);

/// Walks the elements [begin, end) of the loops, row-major, in runs that lie in one innermost row.
class LoopCursor {
 public:
  LoopCursor(const Loops& loops, int64_t begin);

  /// Offset of the next element in an operand and in the result.
  int64_t offset(int operand) const { return offsets_[static_cast<size_t>(operand)]; }
  int64_t result_offset() const { return result_; }
  /// Elements that are left of this innermost row.
  int64_t left() const { return loops_.inner_size() - inner_; }
  /// Goes on by n <= left() elements.
  void advance(int64_t n);

 private:
  const Loops& loops_;
  int64_t inner_ = 0;
  int64_t result_ = 0;
  std::array<int64_t, Loops::kMaxRank> index_{};
  std::array<int64_t, Loops::kMaxOperands> offsets_{};
};

}  // namespace downhaul::kernels

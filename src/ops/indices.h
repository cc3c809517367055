#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace downhaul {

enum class NegativeIndex {
  kError,
  kFromEnd,  ///< -1 is the last element
};

/// The values of an i32 or i64 tensor as positions in [0, size).
/// Errors: kInvalidArgument for the first that is out of range: "index 7 out of range [0, 5)".
Result<std::vector<int64_t>> checked_indices(const Tensor& index, int64_t size,
                                             NegativeIndex negative);

}  // namespace downhaul

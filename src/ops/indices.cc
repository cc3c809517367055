#include "ops/indices.h"

#include "base/strings.h"

namespace downhaul {

Result<std::vector<int64_t>> checked_indices(const Tensor& index, int64_t size,
                                             NegativeIndex negative) {
  const int64_t low = negative == NegativeIndex::kFromEnd ? -size : 0;
  std::vector<int64_t> out(static_cast<size_t>(index.num_elements()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t v = index.int_at(static_cast<int64_t>(i));
    if (v < low || v >= size) {
      return invalid_argument(cat("index ", v, " out of range [", low, ", ", size, ")"));
    }
    out[i] = v < 0 ? v + size : v;
  }
  return out;
}

}  // namespace downhaul

#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace downhaul::engine {

/// [outer, size, inner] around one axis.
struct Along {
  int64_t outer = 1, size = 1, inner = 1;
};
inline Along along(const Sizes& sizes, int64_t axis) {
  Along a;
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d) {
    int64_t& part = d < axis ? a.outer : d == axis ? a.size : a.inner;
    part *= sizes[static_cast<size_t>(d)];
  }
  return a;
}

}  // namespace downhaul::engine

#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace downhaul {

/// Calls f(first, stride, size) for each line of `t` along `axis`: its elements are
/// first + i * stride for i < size. In row-major order of the other dimensions.
template <typename F>
void for_each_line(const Tensor& t, int64_t axis, F f) {
  int64_t inner = 1;
  int64_t outer = 1;
  for (int64_t d = 0; d < axis; ++d) outer *= t.size(d);
  for (int64_t d = axis + 1; d < t.rank(); ++d) inner *= t.size(d);
  const int64_t size = t.size(axis);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) f(o * size * inner + i, inner, size);
  }
}

}  // namespace downhaul

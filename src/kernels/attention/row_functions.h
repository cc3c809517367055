#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"

namespace downhaul::kernels {

/// What attention does with rows, per ISA.
struct RowFunctions {
  /// n scores become weights before they are divided by their sum, whose reciprocal is returned (0
  /// where there is nothing to attend to); [n, padded) become zeros. `padded` is a multiple of 16;
  /// `mask` is the first element for the row.
  float (*softmax)(float* scores, int64_t n, int64_t padded, float scale, MaskKind kind,
                   const void* mask, int64_t key_stride);
  /// to[j] = from[j] * by; both may be the same memory.
  void (*scale)(const float* from, float by, int64_t count, float* to);
};

}  // namespace downhaul::kernels

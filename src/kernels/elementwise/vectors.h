#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/elementwise/elementwise.h"

/// Vector loops for generic.cc where elements change their width.
namespace downhaul::kernels {

/// Loops over n contiguous elements; operands marked `one` are a single number.
struct WidthKernels {
  /// op gives bool.
  void (*compare)(BinaryOp op, const float* x, bool one_x, const float* y, bool one_y, size_t n,
                  bool* z);
  void (*select)(const bool* condition, const uint32_t* x, bool one_x, const uint32_t* y,
                 bool one_y, size_t n, uint32_t* z);
  void (*to_half)(const float* x, size_t n, uint16_t* y);
  void (*from_half)(const uint16_t* x, size_t n, float* y);
  void (*to_bfloat16)(const float* x, size_t n, uint16_t* y);
  void (*from_bfloat16)(const uint16_t* x, size_t n, float* y);
};
/// For the instruction set in use.
WidthKernels width_kernels();

}  // namespace downhaul::kernels

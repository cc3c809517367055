#pragma once

#include <cstdint>

#include "base/thread_pool.h"

/// The second half of a transposed convolution: what one matrix product has computed for every
/// input pixel and tap is added up where it falls in the result.
namespace downhaul::kernels {

/// One image, channels last, of one group.
struct TransposedConv2d {
  int64_t height_in = 0, width_in = 0;
  int64_t height_out = 0, width_out = 0;
  int64_t channels = 0;    ///< of the result, in this group
  int64_t out_stride = 0;  ///< floats from pixel to pixel of the result
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t top = 0, left = 0;
  int64_t dilation_h = 1, dilation_w = 1;
};

/// out[y, x] += products[row, column, tap] for the taps that lead from (first_row + row, column) to
/// (y, x): y = row·stride - top + tap·dilation, and so for x. `products` is [rows][width_in]
/// [kernel_h·kernel_w][channels]. Every result adds in the same order whatever the threads. Neither
/// allocates nor fails.
void add_taps(const TransposedConv2d& conv, int64_t first_row, int64_t rows, const float* products,
              float* out, ThreadPool& pool);

}  // namespace downhaul::kernels

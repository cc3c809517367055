#pragma once

#include "kernels/conv/kernel.h"
#include "kernels/gemm/gemm.h"

namespace downhaul::kernels {

/// For kConvFewChannels: copies the image with its padding to `scratch` (of the plan's size) and
/// gives the rows of the matrix product that is left to do. `table` from build_conv2d_table.
IndirectA few_channels_rows(const Conv2d& conv, const float* in, const int32_t* table,
                            float* scratch, ThreadPool& pool);

/// to[3 i + c] = the i-th of plane c, for `count` pixels.
void interleave_3(const float* plane0, const float* plane1, const float* plane2, int64_t count,
                  float* to);

}  // namespace downhaul::kernels

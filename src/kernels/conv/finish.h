#pragma once

#include <cstdint>

#include "kernels/epilogue.h"

namespace downhaul::kernels {

/// The epilogue for sums that stand in `raw`, `raw_stride` from pixel to pixel. `operand` is the
/// second tensor at the first of these pixels and channels, null without one; its pixels are
/// epilogue.operand_stride apart.
void finish_pixels(const float* raw, int64_t raw_stride, int64_t pixels, int64_t channels,
                   const Epilogue& epilogue, const float* operand, float* out, int64_t out_stride);

}  // namespace downhaul::kernels

#pragma once

#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace downhaul::kernels {

/// Rows k in [0, depth) of columns [first, first + kPanel) of B to dst[k][kPanel]; columns from
/// `n` on are zeros.
void pack_columns(const BSource& b, int64_t n, int64_t depth, int64_t first, float* dst);

}  // namespace downhaul::kernels

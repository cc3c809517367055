#pragma once

#include <cstdint>

namespace downhaul::kernels {

/// to[3 i + c] = the i-th of plane c, for `count` pixels.
void interleave_3(const float* plane0, const float* plane1, const float* plane2, int64_t count,
                  float* to);

}  // namespace downhaul::kernels

#pragma once

#include <cstdint>

#include "base/thread_pool.h"

/// Softmax and log-softmax in f32 along the middle of [outer, size, inner], row-major. Exponentials
/// as in math-inl.h; sums have 64 partial sums (inner = 1) or go in order (inner > 1), so results
/// depend on neither threads nor, but for the last places of exp on the x86-64 baseline, ISA.
/// Nothing allocates or fails.
namespace downhaul::kernels {

/// y = exp(x - max) / Σ exp(x - max). A line of only -inf, or with NaN or +inf, gives NaN. `out`
/// may be `in`.
struct Softmax {
  int64_t outer = 0;
  int64_t size = 0;
  int64_t inner = 1;
  const float* in = nullptr;
  float* out = nullptr;
};
void softmax(const Softmax& call, ThreadPool& pool);

/// y = x - max - log Σ exp(x - max).
void log_softmax(const Softmax& call, ThreadPool& pool);

}  // namespace downhaul::kernels

#include "kernels/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/peak.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Multiply-adds of `steps` rounds, and something that depends on all of them.
int64_t multiply_add(int64_t steps, float* result) {
  const hn::ScalableTag<float> d;
  // Enough for latency times ports of any of the targets: 5 cycles, 2 ports; 4 ports on large ARMs.
  constexpr int kChains = HWY_TARGET == HWY_AVX2 ? 12 : 20;
  hn::Vec<decltype(d)> sums[kChains];
  for (auto& s : sums) s = hn::Set(d, *result);
  const auto factor = hn::Set(d, 0.999f);
  const auto term = hn::Set(d, 0.001f);
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 20
    for (auto& s : sums) s = hn::MulAdd(s, factor, term);
  }
  auto total = hn::Zero(d);
  for (auto& s : sums) total = hn::Add(total, s);
  *result = hn::GetLane(total);
  return steps * kChains * static_cast<int64_t>(hn::Lanes(d));
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {

HWY_EXPORT(multiply_add);

double measure_fma_peak() {
  using Clock = std::chrono::steady_clock;
  volatile float sink = 1;
  double best = 0;
  for (int i = 0; i < 100; ++i) {
    float value = sink;
    const auto start = Clock::now();
    const auto done = static_cast<double>(HWY_DYNAMIC_DISPATCH(multiply_add)(20000, &value));
    const std::chrono::duration<double> taken = Clock::now() - start;
    sink = value;
    best = std::max(best, 2e-9 * done / taken.count());
  }
  return best;
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

#include "kernels/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
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

/// Something that depends on every word of [data, data + count); count a multiple of 256.
uint32_t read_all(const uint32_t* data, size_t count) {
  const hn::ScalableTag<uint32_t> d;
  constexpr size_t kStreams = 8;
  hn::Vec<decltype(d)> sums[kStreams];
  for (auto& s : sums) s = hn::Zero(d);
  const size_t step = hn::Lanes(d);
  for (size_t i = 0; i < count; i += kStreams * step) {
#pragma GCC unroll 8
    for (size_t s = 0; s < kStreams; ++s) {
      sums[s] = hn::Xor(sums[s], hn::LoadU(d, data + i + s * step));
    }
  }
  auto total = hn::Zero(d);
  for (auto& s : sums) total = hn::Xor(total, s);
  return hn::GetLane(total);
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {

HWY_EXPORT(multiply_add);
HWY_EXPORT(read_all);

double measure_read_bandwidth(int threads) {
  using Clock = std::chrono::steady_clock;
  constexpr size_t kWords = size_t{192} << 18;  // 192 MiB
  std::vector<uint32_t> data(kWords, 1);
  ThreadPool pool(threads);
  constexpr int64_t kPiece = 1 << 16;  // words
  std::atomic<uint32_t> sink{0};
  double best = 0;
  for (int pass = 0; pass < 6; ++pass) {
    const auto start = Clock::now();
    pool.run(static_cast<int64_t>(kWords) / kPiece, 16, [&](int64_t begin, int64_t end, int) {
      sink ^= HWY_DYNAMIC_DISPATCH(read_all)(data.data() + begin * kPiece,
                                             static_cast<size_t>((end - begin) * kPiece));
    });
    const std::chrono::duration<double> taken = Clock::now() - start;
    best = std::max(best, 1e-9 * static_cast<double>(kWords * sizeof(uint32_t)) / taken.count());
  }
  return best;
}

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

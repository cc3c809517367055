#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/guarded_buffer.h"
#include "kernels/isa.h"

/// What tests of kernels share.
namespace downhaul::kernels {

inline constexpr double kEps = 0x1p-24;  ///< half an f32 ulp, relative

/// Calls f(pool) for every instruction set of this machine with 1, 2 and 3 threads.
template <typename F>
void on_every_isa_and_pool(F f) {
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    for (int threads = 1; threads <= 3; ++threads) {
      SCOPED_TRACE(std::string(name(isa)) + ", threads: " + std::to_string(threads));
      ThreadPool pool(threads);
      f(pool);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

/// Fills with normally distributed numbers around `mean`, or for integers with small ones.
template <typename T>
void fill_random(GuardedBuffer<T>& buffer, uint32_t seed, double mean = 0, double deviation = 1) {
  std::mt19937 random(seed);
  if constexpr (std::is_same_v<T, bool>) {
    for (T& x : buffer) x = (random() & 1) != 0;
  } else if constexpr (std::is_floating_point_v<T>) {
    std::normal_distribution<double> normal(mean, deviation);
    for (T& x : buffer) x = static_cast<T>(normal(random));
  } else {
    std::uniform_int_distribution<int> small(std::is_signed_v<T> ? -9 : 0, 9);
    for (T& x : buffer) x = static_cast<T>(small(random));
  }
}

template <typename T>
std::vector<T> copy_of(const GuardedBuffer<T>& buffer) {
  return {buffer.begin(), buffer.end()};
}

/// Bit for bit, with NaN equal to NaN.
template <typename T>
::testing::AssertionResult same_bits(const T* expected, const T* found, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
      if (std::isnan(expected[i]) && std::isnan(found[i])) continue;
      if (std::bit_cast<Bits>(expected[i]) == std::bit_cast<Bits>(found[i])) continue;
    } else if (expected[i] == found[i]) {
      continue;
    }
    return ::testing::AssertionFailure() << "element " << i << " of " << n << ": expected "
                                         << +expected[i] << ", found " << +found[i];
  }
  return ::testing::AssertionSuccess();
}

}  // namespace downhaul::kernels

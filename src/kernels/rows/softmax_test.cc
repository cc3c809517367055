#include "kernels/rows/softmax.h"

#include <algorithm>
#include <limits>

#include "kernels/kernel_test.h"

namespace downhaul::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// One line in f64. Bound: exp is right to 2 ulp, its argument to half an ulp of its size; the sum
/// of n positive numbers from partial sums to (n/16 + 8) eps; then two roundings. What exp flushes
/// to 0 is below 2^-126.
void expect_softmax(const std::vector<double>& x, const std::vector<float>& found, bool log,
                    bool across) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double v : x) sum += std::exp(v - top);
  const double n = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - top;
    const double steps = (across ? n : n / 64) + 12 + std::abs(d);
    if (log) {
      const double y = d - std::log(sum);
      ASSERT_NEAR(found[i], y, kEps * (steps + 4 * std::abs(y))) << i << " of " << n;
    } else {
      const double y = std::exp(d) / sum;
      ASSERT_NEAR(found[i], y, kEps * steps * y + 0x1p-126) << i << " of " << n;
    }
  }
}

void check(int64_t outer, int64_t size, int64_t inner, bool in_place, ThreadPool& pool) {
  GuardedBuffer<float> in(static_cast<size_t>(outer * size * inner));
  GuardedBuffer<float> out(in.size());
  // Far from 0 too: without the true maximum everything would vanish.
  const float shift = size % 3 == 0 ? -300.0f : 0.0f;
  fill_random(in, static_cast<uint32_t>(size), static_cast<double>(shift), 10);
  for (size_t i = 0; i < in.size(); i += 5) in[i] = -kInf;  // masked
  for (int64_t o = 0; o < outer; ++o) {
    // Not all of a line.
    for (int64_t c = 0; c < inner; ++c) in[static_cast<size_t>(o * size * inner + c)] = shift + 1;
  }
  const std::vector<float> x = copy_of(in);
  for (const bool log : {false, true}) {
    std::copy(x.begin(), x.end(), in.begin());
    GuardedBuffer<float>& to = in_place ? in : out;
    const Softmax call{
        .outer = outer, .size = size, .inner = inner, .in = in.data(), .out = to.data()};
    (log ? log_softmax : softmax)(call, pool);
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t c = 0; c < inner; ++c) {
        std::vector<double> line;
        std::vector<float> found;
        for (int64_t i = 0; i < size; ++i) {
          const auto at = static_cast<size_t>((o * size + i) * inner + c);
          if (x[at] == -kInf) {
            ASSERT_EQ(to[at], log ? -kInf : 0.0f);
            continue;
          }
          line.push_back(static_cast<double>(x[at]));
          found.push_back(to[at]);
        }
        expect_softmax(line, found, log, inner > 1);
      }
    }
  }
}

TEST(Softmax, AgreesWithF64AlongTheLastAndAlongAnInnerAxis) {
  on_every_isa_and_pool([](ThreadPool& pool) {
    for (int64_t size = 1; size <= 67; ++size) check(3, size, 1, size % 2 == 0, pool);
    for (const int64_t size : {128, 129, 1000, 30522}) check(2, size, 1, false, pool);
    for (const int64_t inner : {2, 15, 16, 17, 64, 65, 130}) {
      for (const int64_t size : {1, 2, 21, 64}) check(2, size, inner, size == 21, pool);
    }
  });
}

TEST(Softmax, ALineOfNothingOrWithNanOrInfinityIsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  on_every_isa_and_pool([&](ThreadPool& pool) {
    for (const int64_t inner : {1, 3}) {
      for (const float special : {-kInf, nan, kInf}) {
        const int64_t size = 37;
        GuardedBuffer<float> in(static_cast<size_t>(size * inner));
        GuardedBuffer<float> out(in.size());
        fill_random(in, 1);
        for (size_t i = 0; i < in.size(); ++i) {
          if (special == -kInf || i / static_cast<size_t>(inner) == 30) in[i] = special;
        }
        for (const auto run : {softmax, log_softmax}) {
          run({.outer = 1, .size = size, .inner = inner, .in = in.data(), .out = out.data()}, pool);
          for (const float y : out) ASSERT_TRUE(std::isnan(y)) << y;
        }
      }
    }
  });
}

TEST(Softmax, GivesTheSameBitsForEveryNumberOfThreads) {
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    for (const int64_t inner : {1, 70}) {
      std::vector<float> expected;
      for (int threads = 1; threads <= 3; ++threads) {
        ThreadPool pool(threads);
        GuardedBuffer<float> in(static_cast<size_t>(64 * 100 * inner));
        GuardedBuffer<float> out(in.size());
        fill_random(in, 3);
        softmax({.outer = 64, .size = 100, .inner = inner, .in = in.data(), .out = out.data()},
                pool);
        if (expected.empty()) expected = copy_of(out);
        ASSERT_TRUE(same_bits(expected.data(), out.data(), out.size()));
      }
    }
  }
}

}  // namespace
}  // namespace downhaul::kernels

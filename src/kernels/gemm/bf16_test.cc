// bf16 products on every ISA against sums in f64 of factors rounded to bf16, within the rounding of
// f32 sums.
#include "kernels/gemm/bf16.h"

#include <bit>
#include <vector>

#include "kernels/gemm/bf16_tile.h"
#include "kernels/kernel_test.h"

namespace downhaul::kernels {
namespace {

using Buffer = GuardedBuffer<float>;

/// To nearest, ties to even, by comparing distances: not the kernels' own arithmetic.
double bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto down = std::bit_cast<float>(bits & 0xFFFF0000u);
  const auto up = std::bit_cast<float>((bits & 0xFFFF0000u) + 0x10000u);
  const double below = std::fabs(static_cast<double>(x) - down);
  const double above = std::fabs(static_cast<double>(up) - x);
  if (below != above) return below < above ? down : up;
  return (bits & 0x10000u) == 0 ? down : up;
}

struct Case {
  int64_t m, n, k;
  bool transposed = false;  // B is [k, n]
  bool bias = true;
  Epilogue epilogue = {};
};

void check(const Case& t, ThreadPool& pool) {
  SCOPED_TRACE(testing::Message() << t.m << " x " << t.n << " x " << t.k << " transposed "
                                  << t.transposed);
  const auto size = [](int64_t rows, int64_t columns) {
    return static_cast<size_t>(rows * columns);
  };
  Buffer a(size(t.m, t.k)), b(size(t.n, t.k)), bias(size(1, t.n)), c(size(t.m, t.n));
  Buffer operand(size(t.m, t.n));
  fill_random(a, 1);
  fill_random(b, 2);
  fill_random(bias, 3);
  fill_random(operand, 4);
  GuardedBuffer<uint8_t> packed(packed_bf16_bytes(t.n, t.k));
  GuardedBuffer<uint8_t> scratch(gemm_bf16_scratch_bytes(t.m, t.k));
  const BSource source = {
      .data = b.data(), .n_stride = t.transposed ? 1 : t.k, .k_stride = t.transposed ? t.n : 1};
  pack_b_bf16(source, t.n, t.k, t.bias ? bias.data() : nullptr, packed.data(), pool);
  Epilogue e = t.epilogue;
  if (e.combine != Combine::kNone) {
    e.operand = operand.data();
    e.operand_stride = t.n;
  }
  gemm_bf16(a.data(), t.k, t.m, packed.data(), t.n, t.k, c.data(), t.n, e, scratch.data(), pool);
  for (int64_t i = 0; i < t.m; ++i) {
    for (int64_t j = 0; j < t.n; ++j) {
      double sum = t.bias ? bias[static_cast<size_t>(j)] : 0.0;
      double magnitude = std::fabs(sum);
      for (int64_t p = 0; p < t.k; ++p) {
        const float y = b[static_cast<size_t>(t.transposed ? p * t.n + j : j * t.k + p)];
        const double product = bf16(a[static_cast<size_t>(i * t.k + p)]) * bf16(y);
        sum += product;
        magnitude += std::fabs(product);
      }
      // Each of k + 1 additions rounds at most the magnitude; the emulation without FMA and the
      // instruction inside a pair round once more.
      double allowed = 2 * static_cast<double>(t.k + 2) * kEps * magnitude;
      const double other = operand[static_cast<size_t>(i * t.n + j)];
      if (e.combine == Combine::kAddBefore) sum += other;
      if (e.activation == Activation::kClamp) sum = std::min(std::max(sum, 0.0), 6.0);
      if (e.combine == Combine::kAddAfter) sum += other;
      allowed += 2 * kEps * (std::fabs(sum) + std::fabs(other));
      const double found = c[static_cast<size_t>(i * t.n + j)];
      ASSERT_NEAR(found, sum, allowed) << i << ", " << j;
    }
  }
}

Epilogue with(Activation activation, Combine combine) {
  return {.activation = activation, .combine = combine, .lo = 0, .hi = 6};
}

TEST(Bf16, EverySizeAroundTheTiles) {
  on_every_isa_and_pool([](ThreadPool& pool) {
    for (int64_t i = 1; i <= 67; ++i) {
      check({i, 33, 19}, pool);
      check({5, i, 30}, pool);
      check({3, 40, i}, pool);
      check({i, i, i, true, false}, pool);
      if (::testing::Test::HasFailure()) return;
    }
  });
}

TEST(Bf16, SizesOfModelsAndEpilogues) {
  on_every_isa_and_pool([](ThreadPool& pool) {
    check({128, 96, 768}, pool);
    check({130, 70, 300, true, true, with(Activation::kClamp, Combine::kNone)}, pool);
    check({20, 130, 64, false, true, with(Activation::kClamp, Combine::kAddBefore)}, pool);
    check({20, 130, 64, false, false, with(Activation::kNone, Combine::kAddAfter)}, pool);
    check({7, 9, 0}, pool);
    check({0, 9, 4}, pool);
  });
}

TEST(Bf16, ResultsDependOnNeitherThreadsNorRowsBeside) {
  const auto run = [](int64_t m, int threads) {
    constexpr int64_t kN = 200, kK = 333;
    Buffer a(static_cast<size_t>(m * kK)), b(kN * kK), c(static_cast<size_t>(m * kN));
    fill_random(a, 1);
    fill_random(b, 2);
    ThreadPool pool(threads);
    GuardedBuffer<uint8_t> packed(packed_bf16_bytes(kN, kK));
    GuardedBuffer<uint8_t> scratch(gemm_bf16_scratch_bytes(m, kK));
    pack_b_bf16({.data = b.data(), .n_stride = kK, .k_stride = 1}, kN, kK, nullptr, packed.data(),
                pool);
    gemm_bf16(a.data(), kK, m, packed.data(), kN, kK, c.data(), kN, {}, scratch.data(), pool);
    return copy_of(c);
  };
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    const auto all = run(61, 1);
    for (const int threads : {2, 3}) EXPECT_EQ(all, run(61, threads));
    for (const int64_t m : {1, 5, 14, 40}) {
      const auto some = run(m, 2);
      EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << m << " rows";
    }
  }
}

TEST(Bf16, RoundsToNearestEvenAndKeepsWhatIsNotANumber) {
  const float inf = INFINITY;
  const std::vector<float> from = {
      1.0f, 1.00390625f, 1.01171875f, 1.004f, -1.00390625f, inf,
      -inf, NAN,         3.4e38f,     0.0f,   -0.0f,        std::bit_cast<float>(0x7F800001u),
      0.5f};
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    std::vector<uint32_t> pairs((from.size() + 1) / 2);
    round_to_pairs(from.data(), static_cast<int64_t>(from.size()), pairs.data());
    const auto value = [&](size_t i) {
      return std::bit_cast<float>(i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xFFFF0000u);
    };
    EXPECT_EQ(value(0), 1.0f);
    EXPECT_EQ(value(1), 1.0f) << "a tie goes to the even neighbour";
    EXPECT_EQ(value(2), 1.015625f) << "and up when that is even";
    EXPECT_EQ(value(3), 1.0078125f);
    EXPECT_EQ(value(4), -1.0f);
    EXPECT_EQ(value(5), inf);
    EXPECT_EQ(value(6), -inf);
    EXPECT_TRUE(std::isnan(value(7)));
    EXPECT_EQ(value(8), inf) << "beyond the largest bf16";
    EXPECT_EQ(std::bit_cast<uint32_t>(value(9)), 0u);
    EXPECT_EQ(std::bit_cast<uint32_t>(value(10)), 0x80000000u);
    EXPECT_TRUE(std::isnan(value(11))) << "not infinity, though its upper bits are";
    EXPECT_EQ(pairs.back() >> 16, 0u) << "padded with 0";
  }
}

}  // namespace
}  // namespace downhaul::kernels

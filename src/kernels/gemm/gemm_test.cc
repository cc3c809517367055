// Every row of kernels.inc against the triple loop, bit for bit, at sizes around the tile.
#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm/tile.h"
#include "kernels/guarded_buffer.h"
#include "kernels/isa.h"

namespace downhaul::kernels {
namespace {

using Buffer = GuardedBuffer<float>;

size_t at(int64_t i) { return static_cast<size_t>(i); }

class Random {
 public:
  float value() { return distribution_(engine_); }
  void fill(Buffer& b) {
    for (float& v : b) v = value();
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }

 private:
  std::mt19937 engine_{7};
  std::uniform_real_distribution<float> distribution_{-1.0f, 1.0f};
};

/// Without FMA, which the x86-64 baseline lacks, product and sum are rounded apart.
float step(float sum, float a, float b) {
#if defined(__x86_64__)
  if (active_isa() == Isa::kBaseline) return sum + a * b;
#endif
  return std::fma(a, b, sum);
}

/// Exact in every step but for the functions, which math_test.cc checks.
double activation(const Epilogue& e, float x) {
  const double v = static_cast<double>(x);
  switch (e.activation) {
    case Activation::kNone:
      return v;
    case Activation::kClamp:
      return std::min(std::max(v, static_cast<double>(e.lo)), static_cast<double>(e.hi));
    case Activation::kGelu:
      return v * std::erfc(-v / std::sqrt(2.0)) / 2;
    case Activation::kGeluTanh:
      return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
    case Activation::kHardSwish:
      return v * std::min(std::max(v + 3, 0.0), 6.0) / 6;
    case Activation::kHardSigmoid:
      return std::min(std::max(v + 3, 0.0), 6.0) / 6;
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-v));
    case Activation::kSilu:
      return v / (1 + std::exp(-v));
    case Activation::kTanh:
      return std::tanh(v);
    case Activation::kLeakyRelu:
      return v > 0 ? v : v * static_cast<double>(e.lo);
  }
  return 0;
}
bool is_function(Activation a) { return a != Activation::kNone && a != Activation::kClamp; }

/// What the epilogue makes of a sum; `tolerance` is 0 where all bits must be right.
float finish(const Epilogue& e, float sum, float operand, double* tolerance) {
  float v = sum * e.scale;
  if (e.combine == Combine::kAddBefore) v += operand;
  const double exact = activation(e, v);
  *tolerance = is_function(e.activation) ? 1e-6 * std::max(1.0, std::fabs(exact)) : 0;
  v = static_cast<float>(exact);
  if (e.combine == Combine::kAddAfter) v += operand;
  if (e.combine == Combine::kMultiplyAfter) v *= operand;
  return v;
}

void expect_value(float got, float want, double tolerance, const std::string& where) {
  if (tolerance == 0) {
    ASSERT_EQ(got, want) << where;
  } else {
    ASSERT_NEAR(got, want, tolerance) << where;
  }
}

std::string name_of(const testing::TestParamInfo<Isa>& info) {
  return std::string(name(info.param));
}

struct Case {
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 1;
  bool has_bias = true;
  bool k_major = false;  // B is [k, n] instead of [n, k]
  int64_t lda_more = 0;
  int64_t ldc_more = 0;
  Epilogue epilogue;
  bool in_place = false;  // operand is the result
};

int64_t result_at(const Epilogue& e, int64_t ldc, int64_t i, int64_t j) {
  if (e.head_dim == 0) return i * ldc + j;
  return j / e.head_dim * e.head_stride + i * ldc + j % e.head_dim;
}

class GemmTest : public testing::TestWithParam<Isa> {
 protected:
  void check(Case c, int threads = 1) {
    ThreadPool pool(threads);
    Epilogue& e = c.epilogue;
    const int64_t lda = c.k + c.lda_more;
    Buffer a(at(c.m == 0 ? 0 : (c.m - 1) * lda + c.k));
    Buffer b(at(c.n * c.k));
    Buffer bias(at(c.n));
    random_.fill(a);
    random_.fill(b);
    random_.fill(bias);
    int64_t ldc = c.n + c.ldc_more;
    int64_t size = c.m == 0 ? 0 : (c.m - 1) * ldc + c.n;
    if (e.head_dim > 0) {
      ldc = e.head_dim;
      e.head_stride = c.m * e.head_dim;
      size = c.m * c.n;
    }
    Buffer out(at(size));
    const int64_t operand_stride = c.in_place ? ldc : c.n + 3;
    Buffer other(at(c.in_place ? 0 : std::max<int64_t>(0, (c.m - 1) * operand_stride + c.n)));
    random_.fill(other);
    std::vector<float> operand;
    if (e.combine != Combine::kNone) {
      if (c.in_place) random_.fill(out);
      e.operand = c.in_place ? out.data() : other.data();
      e.operand_stride = operand_stride;
      operand.assign(e.operand, e.operand + (c.in_place ? out.size() : other.size()));
    }
    Buffer packed(packed_b_bytes(c.n, c.k) / sizeof(float));
    BSource source{b.data(), c.k, 1};
    if (c.k_major) source = {b.data(), 1, c.n};
    pack_b(source, c.n, c.k, c.has_bias ? bias.data() : nullptr, packed.data(), pool);

    gemm(a.data(), lda, c.m, packed.data(), c.n, c.k, out.data(), ldc, e, pool);

    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        float sum = c.has_bias ? bias[at(j)] : 0.0f;
        for (int64_t k = 0; k < c.k; ++k) {
          sum = step(sum, a[at(i * lda + k)], b[at(c.k_major ? k * c.n + j : j * c.k + k)]);
        }
        double tolerance = 0;
        const float other_value = operand.empty() ? 0 : operand[at(i * operand_stride + j)];
        const float want = finish(e, sum, other_value, &tolerance);
        expect_value(out[at(result_at(e, ldc, i, j))], want, tolerance,
                     std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) +
                         " at " + std::to_string(i) + ", " + std::to_string(j));
        if (HasFailure()) return;
      }
      // What lies between rows is not touched.
      for (int64_t j = c.n; e.head_dim == 0 && j < ldc && i + 1 < c.m; ++j) {
        uint32_t bits = 0;
        std::memcpy(&bits, &out[at(i * ldc + j)], sizeof bits);
        ASSERT_EQ(bits, c.in_place ? bits : 0xFFFFFFFFu);
      }
    }
  }

  ScopedIsa isa_{GetParam()};
  Random random_;
};

TEST_P(GemmTest, TheTableHasARowForTheIsa) {
  bool found = false;
#define DH_GEMM(row, target, isa, row_count, column_count, reassociates)                \
  if (tile_table().name == #row) {                                                      \
    found = true;                                                                       \
    EXPECT_EQ(Isa::isa, GetParam());                                                    \
    EXPECT_EQ(tile_table().mr, row_count);                                              \
    EXPECT_EQ(tile_table().nr, column_count);                                           \
    for (int i = 1; i <= row_count; ++i) EXPECT_NE(tile_table().rows[i], nullptr) << i; \
  }
#include "kernels/gemm/kernels.inc"
#undef DH_GEMM
  EXPECT_TRUE(found) << tile_table().name;
}

TEST_P(GemmTest, EverySizeAroundTheTile) {
  for (int64_t m = 1; m <= 67; ++m) check({.m = m, .n = 33, .k = 5});
  for (int64_t n = 1; n <= 67; ++n) check({.m = 15, .n = n, .k = 6});
  for (int64_t k = 0; k <= 67; ++k) check({.m = 13, .n = 40, .k = k});
  for (int i = 0; i < 60 && !HasFailure(); ++i) {
    check({.m = 1 + random_.below(67),
           .n = 1 + random_.below(67),
           .k = random_.below(68),
           .has_bias = i % 2 == 0,
           .k_major = i % 3 == 0,
           .lda_more = random_.below(9),
           .ldc_more = random_.below(9)});
  }
}

TEST_P(GemmTest, EmptySizes) {
  check({.m = 0, .n = 5, .k = 3});
  check({.m = 5, .n = 0, .k = 3});
  check({.m = 5, .n = 3, .k = 0});
}

TEST_P(GemmTest, DeepSumsInBlocks) {
  check({.m = 30, .n = 70, .k = 1025});
  check({.m = 3, .n = 40, .k = 3072}, 2);
  // Rows of A whose distance is bad for the cache.
  check({.m = 29, .n = 200, .k = 512});
  check({.m = 45, .n = 300, .k = 1021, .lda_more = 3}, 2);
  Case c{.m = 17, .n = 65, .k = 2050};
  c.epilogue.activation = Activation::kClamp;
  c.epilogue.lo = 0;
  c.epilogue.combine = Combine::kAddBefore;
  check(c);
  c.in_place = true;
  check(c);
  c.in_place = false;
  c.n = 66;
  c.epilogue.head_dim = 11;
  check(c);
}

TEST_P(GemmTest, EveryEpilogue) {
  for (int kind = 0; kind <= static_cast<int>(Activation::kLeakyRelu); ++kind) {
    for (int combine = 0; combine <= static_cast<int>(Combine::kMultiplyAfter); ++combine) {
      for (int shape = 0; shape < 4 && !HasFailure(); ++shape) {
        Case c{.m = shape % 2 == 0 ? 29 : 1, .n = shape < 2 ? 45 : 32, .k = 7};
        c.in_place = shape == 3;
        c.epilogue.activation = static_cast<Activation>(kind);
        c.epilogue.combine = static_cast<Combine>(combine);
        c.epilogue.scale = shape == 0 ? 1.0f : 0.75f;
        c.epilogue.lo = -0.25f;
        c.epilogue.hi = 0.5f;
        SCOPED_TRACE(std::to_string(kind) + " " + std::to_string(combine));
        check(c);
      }
    }
  }
}

TEST_P(GemmTest, ScattersToHeads) {
  for (const int64_t head_dim : {1, 3, 8, 20, 31, 32, 64}) {
    Case c{.m = 19, .n = head_dim * 3, .k = 9};
    c.epilogue.head_dim = head_dim;
    check(c);
    c.epilogue.activation = Activation::kGelu;
    c.epilogue.combine = Combine::kAddAfter;
    check(c);
  }
}

TEST_P(GemmTest, ThreadsDoNotChangeBits) {
  for (const int threads : {2, 3}) {
    check({.m = 128, .n = 200, .k = 130}, threads);
    check({.m = 1500, .n = 24, .k = 33}, threads);
    check({.m = 700, .n = 100, .k = 1500}, threads);
  }
}

TEST_P(GemmTest, NanAndInfinityPassThrough) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ThreadPool pool(1);
  const float a[4] = {nan, inf, -inf, 1};
  const float one[1] = {1};
  std::vector<float> packed(packed_b_bytes(1, 1) / sizeof(float));
  pack_b({one, 1, 1}, 1, 1, nullptr, packed.data(), pool);
  Epilogue relu;
  relu.activation = Activation::kClamp;
  relu.lo = 0;
  float c[4];
  gemm(a, 1, 4, packed.data(), 1, 1, c, 1, relu, pool);
  EXPECT_TRUE(std::isnan(c[0]));
  EXPECT_EQ(c[1], inf);
  EXPECT_EQ(c[2], 0);
  EXPECT_EQ(c[3], 1);
}

TEST_P(GemmTest, IndirectRowsReadRunsAndZeros) {
  struct Shape {
    int64_t images, rows, taps, run, n;
    int threads;
  };
  const Shape shapes[] = {{1, 1, 1, 1, 1, 1},    {1, 15, 9, 3, 33, 1},   {3, 17, 4, 5, 16, 1},
                          {2, 49, 9, 16, 40, 2}, {1, 29, 9, 150, 64, 1}, {2, 60, 25, 64, 130, 3}};
  for (const Shape& s : shapes) {
    ThreadPool pool(s.threads);
    const int64_t image = 40 * s.run + 7;
    const int64_t k = s.taps * s.run;
    const int64_t m = s.images * s.rows;
    Buffer in(at(s.images * image));
    Buffer zeros(at(s.run));
    Buffer weight(at(s.n * k));
    Buffer bias(at(s.n));
    random_.fill(in);
    random_.fill(weight);
    random_.fill(bias);
    std::fill(zeros.begin(), zeros.end(), 0.0f);
    GuardedBuffer<int32_t> offsets(at(s.rows * s.taps));
    for (int32_t& o : offsets) {
      o = random_.below(4) == 0 ? kZeroRun : static_cast<int32_t>(random_.below(39 * s.run + 8));
    }
    // Weights as of a convolution: [n][run][taps].
    Buffer packed(packed_b_bytes(s.n, k) / sizeof(float));
    pack_b({weight.data(), k, s.taps, s.run, 1}, s.n, k, bias.data(), packed.data(), pool);
    Buffer out(at(m * s.n));
    const IndirectA a{in.data(), offsets.data(), zeros.data(), s.rows, image, s.taps, s.run};
    gemm_indirect(a, m, packed.data(), s.n, out.data(), s.n, {}, pool);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        float sum = bias[at(j)];
        for (int64_t t = 0; t < s.taps; ++t) {
          const int32_t offset = offsets[at(i % s.rows * s.taps + t)];
          for (int64_t r = 0; r < s.run; ++r) {
            const float x = offset < 0 ? 0 : in[at(i / s.rows * image + offset + r)];
            sum = step(sum, x, weight[at(j * k + r * s.taps + t)]);
          }
        }
        ASSERT_EQ(out[at(i * s.n + j)], sum) << i << ", " << j;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, GemmTest, testing::ValuesIn(supported_isas()), name_of);

}  // namespace
}  // namespace downhaul::kernels

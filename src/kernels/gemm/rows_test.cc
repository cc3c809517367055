// Few rows and batched products against loops that state their order of sums.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/guarded_buffer.h"
#include "kernels/isa.h"

namespace downhaul::kernels {
namespace {

using Buffer = GuardedBuffer<float>;

size_t at(int64_t i) { return static_cast<size_t>(i); }

float step(float sum, float a, float b) {
#if defined(__x86_64__)
  if (active_isa() == Isa::kBaseline) return sum + a * b;  // no FMA
#endif
  return std::fma(a, b, sum);
}

class RowsTest : public testing::TestWithParam<Isa> {
 protected:
  void fill(Buffer& b) {
    for (float& v : b) v = uniform_(engine_);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }

  void check_nk(int64_t m, int64_t n, int64_t k, int64_t more, const Epilogue& e, int threads) {
    const int64_t lda = k + more;
    const int64_t ldb = k + more;
    Buffer a(at((m - 1) * lda + k));
    Buffer b(at((n - 1) * ldb + k));
    Buffer bias(at(n));
    Buffer c(at(m * n));
    fill(a);
    fill(b);
    fill(bias);
    ThreadPool pool(threads);
    gemm_rows_nk(a.data(), lda, m, b.data(), ldb, n, k, bias.data(), c.data(), n, e, pool);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        std::array<float, 16> sums{};
        for (int64_t q = 0; q < k; ++q) {
          float& sum = sums[at(q % 16)];
          sum = step(sum, a[at(i * lda + q)], b[at(j * ldb + q)]);
        }
        for (size_t half = 8; half > 0; half /= 2) {
          for (size_t s = 0; s < half; ++s) sums[s] += sums[s + half];
        }
        expect(c[at(i * n + j)], sums[0] + bias[at(j)], e, m, n, k);
        if (HasFailure()) return;
      }
    }
  }

  void check_kn(int64_t m, int64_t n, int64_t k, int64_t more, const Epilogue& e, int threads) {
    const int64_t lda = k + more;
    const int64_t ldb = n + more;
    Buffer a(at((m - 1) * lda + k));
    Buffer b(at(k == 0 ? 0 : (k - 1) * ldb + n));
    Buffer bias(at(n));
    Buffer c(at(m * n));
    fill(a);
    fill(b);
    fill(bias);
    ThreadPool pool(threads);
    gemm_rows_kn(a.data(), lda, m, b.data(), ldb, n, k, bias.data(), c.data(), n, e, pool);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        float sum = bias[at(j)];
        for (int64_t q = 0; q < k; ++q) sum = step(sum, a[at(i * lda + q)], b[at(q * ldb + j)]);
        expect(c[at(i * n + j)], sum, e, m, n, k);
        if (HasFailure()) return;
      }
    }
  }

  static void expect(float got, float sum, const Epilogue& e, int64_t m, int64_t n, int64_t k) {
    float want = sum * e.scale;
    if (e.activation == Activation::kClamp) want = std::min(std::max(want, e.lo), e.hi);
    ASSERT_EQ(got, want) << m << "x" << n << "x" << k;
  }

  ScopedIsa isa_{GetParam()};
  std::mt19937 engine_{5};
  std::uniform_real_distribution<float> uniform_{-1.0f, 1.0f};
};

TEST_P(RowsTest, EverySize) {
  Epilogue relu;
  relu.activation = Activation::kClamp;
  relu.lo = 0;
  relu.scale = 0.5f;
  for (int64_t m = 1; m <= kMaxRows; ++m) {
    for (int64_t n = 1; n <= 67 && !HasFailure(); ++n) {
      check_nk(m, n, 1 + below(67), below(3), n % 2 == 0 ? relu : Epilogue{}, 1);
      check_kn(m, n, below(67), below(3), n % 2 == 0 ? relu : Epilogue{}, 1);
    }
    for (int64_t k = 1; k <= 67 && !HasFailure(); ++k) {
      check_nk(m, 5, k, 0, {}, 1);
      check_kn(m, 19, k, 0, {}, 1);
    }
  }
}

TEST_P(RowsTest, ThreadsAndLongRows) {
  for (const int threads : {1, 2, 3}) {
    check_nk(1, 2000, 300, 0, {}, threads);
    check_nk(6, 700, 100, 0, {}, threads);
    check_kn(1, 2311, 200, 0, {}, threads);
    check_kn(3, 1111, 129, 0, {}, threads);
  }
}

TEST_P(RowsTest, ScattersAndCombines) {
  const int64_t n = 70;
  const int64_t k = 20;
  ThreadPool pool(1);
  for (const int64_t m : {1, 8}) {
    Buffer a(at(m * k));
    Buffer b(at(n * k));
    Buffer operand(at(m * n));
    Buffer plain(at(m * n));
    Buffer c(at(m * n));
    fill(a);
    fill(b);
    fill(operand);
    Epilogue e;
    e.combine = Combine::kAddAfter;
    e.operand = operand.data();
    e.operand_stride = n;
    e.head_dim = 14;
    e.head_stride = 14 * m;
    for (const bool k_major : {false, true}) {
      if (k_major) {
        gemm_rows_kn(a.data(), k, m, b.data(), n, n, k, nullptr, plain.data(), n, {}, pool);
        gemm_rows_kn(a.data(), k, m, b.data(), n, n, k, nullptr, c.data(), 14, e, pool);
      } else {
        gemm_rows_nk(a.data(), k, m, b.data(), k, n, k, nullptr, plain.data(), n, {}, pool);
        gemm_rows_nk(a.data(), k, m, b.data(), k, n, k, nullptr, c.data(), 14, e, pool);
      }
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          ASSERT_EQ(c[at(j / 14 * 14 * m + i * 14 + j % 14)],
                    plain[at(i * n + j)] + operand[at(i * n + j)]);
        }
      }
    }
  }
}

TEST_P(RowsTest, BatchedProductsOfEveryLayout) {
  struct Shape {
    int64_t m, n, k;
    int threads;
  };
  const Shape shapes[] = {{1, 1, 1, 1},      {17, 33, 9, 1},  {14, 64, 20, 2}, {67, 31, 67, 1},
                          {300, 40, 60, 3},  {0, 5, 3, 1},    {5, 0, 3, 1},    {5, 7, 0, 1},
                          {130, 130, 65, 2}, {301, 20, 50, 3}};
  for (const Shape& s : shapes) {
    for (int layout = 0; layout < 8 && !HasFailure(); ++layout) {
      const bool a_transposed = (layout & 1) != 0;
      const bool b_transposed = (layout & 2) != 0;
      const bool broadcast = (layout & 4) != 0;
      Buffer a(at(6 * s.m * s.k));
      Buffer b(at(6 * s.k * s.n));
      Buffer c(at(6 * s.m * s.n));
      fill(a);
      fill(b);
      Matmul call;
      call.batch[0] = 2;
      call.batch[1] = 3;
      call.m = s.m;
      call.n = s.n;
      call.k = s.k;
      call.a = {a.data(), {3 * s.m * s.k, s.m * s.k}, s.k, 1};
      call.b = {b.data(), {3 * s.k * s.n, s.k * s.n}, s.n, 1};
      if (a_transposed) {
        call.a.row_stride = 1;
        call.a.column_stride = s.m;
      }
      if (b_transposed) {
        call.b.row_stride = 1;
        call.b.column_stride = s.k;
      }
      if (broadcast) {
        call.a.batch_stride[0] = 0;
        call.b.batch_stride[1] = 0;
      }
      call.c = c.data();
      call.c_batch_stride[0] = 3 * s.m * s.n;
      call.c_batch_stride[1] = s.m * s.n;
      call.c_row_stride = s.n;
      call.epilogue.scale = 0.25f;
      Buffer scratch((matmul_scratch_bytes(call, s.threads) + 63) / 64 * 16);
      ThreadPool pool(s.threads);
      matmul(call, scratch.data(), pool);
      for (int64_t p = 0; p < 2; ++p) {
        for (int64_t q = 0; q < 3; ++q) {
          const float* x = a.data() + p * call.a.batch_stride[0] + q * call.a.batch_stride[1];
          const float* y = b.data() + p * call.b.batch_stride[0] + q * call.b.batch_stride[1];
          for (int64_t i = 0; i < s.m; ++i) {
            for (int64_t j = 0; j < s.n; ++j) {
              float sum = 0;
              for (int64_t k = 0; k < s.k; ++k) {
                sum = step(sum, x[i * call.a.row_stride + k * call.a.column_stride],
                           y[k * call.b.row_stride + j * call.b.column_stride]);
              }
              ASSERT_EQ(c[at((p * 3 + q) * s.m * s.n + i * s.n + j)], sum * 0.25f)
                  << s.m << "x" << s.n << "x" << s.k << " layout " << layout;
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, RowsTest, testing::ValuesIn(supported_isas()),
                         [](const auto& i) { return std::string(name(i.param)); });

}  // namespace
}  // namespace downhaul::kernels

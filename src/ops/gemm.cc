#include "ops/gemm.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"

namespace downhaul {

namespace {

// 4 x 8 sums fill eight 16-byte registers, which leaves room for one row of b and a broadcast of a
// on machines with sixteen. kc x nc of b (256 KiB in f32) stays in the second-level cache.
constexpr int64_t kMr = 4;
constexpr int64_t kNr = 8;
constexpr int64_t kKc = 256;
constexpr int64_t kNc = 256;

/// acc[kMr][kNr] = sum over k of a[k][kMr] · b[k][kNr], both packed.
template <typename T>
void micro_kernel(int64_t k, const T* a, const T* b, T* acc) {
  T sum[kMr][kNr] = {};
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t i = 0; i < kMr; ++i) {
      for (int64_t j = 0; j < kNr; ++j) sum[i][j] += a[i] * b[j];
    }
    a += kMr;
    b += kNr;
  }
  for (int64_t i = 0; i < kMr; ++i) std::copy_n(sum[i], kNr, acc + i * kNr);
}

/// Rows of a in groups of kMr, each group column by column; missing rows are zero.
template <typename T>
void pack_a(const StridedMatrix<T>& a, int64_t row, int64_t rows, int64_t k0, int64_t k, T* out) {
  for (int64_t p = 0; p < k; ++p) {
    const T* from = a.data + row * a.row_stride + (k0 + p) * a.column_stride;
    for (int64_t i = 0; i < kMr; ++i) *out++ = i < rows ? from[i * a.row_stride] : T(0);
  }
}

/// Columns of b in groups of kNr, each group row by row; missing columns are zero.
template <typename T>
void pack_b(const StridedMatrix<T>& b, int64_t k0, int64_t k, int64_t column, int64_t columns,
            T* out) {
  for (int64_t j0 = 0; j0 < columns; j0 += kNr) {
    const int64_t width = std::min(kNr, columns - j0);
    if (b.column_stride == 1 && width == kNr) {
      for (int64_t p = 0; p < k; ++p) {
        out = std::copy_n(b.data + (k0 + p) * b.row_stride + column + j0, kNr, out);
      }
      continue;
    }
    // Column by column: their elements lie together when b is a transposed row-major matrix.
    for (int64_t j = 0; j < kNr; ++j) {
      if (j >= width) {
        for (int64_t p = 0; p < k; ++p) out[p * kNr + j] = T(0);
        continue;
      }
      const T* from = b.data + k0 * b.row_stride + (column + j0 + j) * b.column_stride;
      for (int64_t p = 0; p < k; ++p) out[p * kNr + j] = from[p * b.row_stride];
    }
    out += k * kNr;
  }
}

template <typename T>
void gemm_as(int64_t m, int64_t n, int64_t k, const StridedMatrix<T>& a, const StridedMatrix<T>& b,
             T* c, int64_t ldc, bool accumulate) {
  if (!accumulate) {
    for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * ldc, n, T(0));
  }
  std::vector<T> packed_a(static_cast<size_t>(kMr * kKc));
  std::vector<T> packed_b(static_cast<size_t>(kKc * kNc));
  T acc[kMr * kNr];
  for (int64_t k0 = 0; k0 < k; k0 += kKc) {
    const int64_t kc = std::min(kKc, k - k0);
    for (int64_t n0 = 0; n0 < n; n0 += kNc) {
      const int64_t nc = std::min(kNc, n - n0);
      pack_b(b, k0, kc, n0, nc, packed_b.data());
      for (int64_t i0 = 0; i0 < m; i0 += kMr) {
        const int64_t rows = std::min(kMr, m - i0);
        pack_a(a, i0, rows, k0, kc, packed_a.data());
        for (int64_t j0 = 0; j0 < nc; j0 += kNr) {
          micro_kernel(kc, packed_a.data(), packed_b.data() + j0 * kc, acc);
          const int64_t columns = std::min(kNr, nc - j0);
          for (int64_t i = 0; i < rows; ++i) {
            T* to = c + (i0 + i) * ldc + n0 + j0;
            for (int64_t j = 0; j < columns; ++j) to[j] += acc[i * kNr + j];
          }
        }
      }
    }
  }
}

}  // namespace

void gemm(int64_t m, int64_t n, int64_t k, StridedMatrix<float> a, StridedMatrix<float> b, float* c,
          int64_t ldc, bool accumulate) {
  gemm_as(m, n, k, a, b, c, ldc, accumulate);
}

void gemm(int64_t m, int64_t n, int64_t k, StridedMatrix<double> a, StridedMatrix<double> b,
          double* c, int64_t ldc, bool accumulate) {
  gemm_as(m, n, k, a, b, c, ldc, accumulate);
}

int64_t count_multiply_adds(int64_t batch, int64_t m, int64_t n, int64_t k) {
  int64_t total = batch;
  for (const int64_t factor : {m, n, k}) {
    const auto product = checked_mul(total, factor);
    if (!product) return INT64_MAX;
    total = *product;
  }
  return total;
}

}  // namespace downhaul

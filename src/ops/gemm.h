#pragma once

#include <cstdint>

/// The matrix product under the reference kernels of linear, matmul, attention and convolution.
namespace downhaul {

/// Element (i, j) is data[i * row_stride + j * column_stride]; strides in elements.
template <typename T>
struct StridedMatrix {
  const T* data;
  int64_t row_stride;
  int64_t column_stride;
};

/// c[i, j] = init + sum over k of a[i, k] · b[k, j], for i < m, j < n; c is row-major with `ldc`
/// elements between rows. With `accumulate` init is what stands in c, else 0.
/// Sums are kept in T, in blocks of 256 along k that are added up, so that the error grows with
/// k/256 + 256 and not with k. No FMA: the same bits on every machine.
void gemm(int64_t m, int64_t n, int64_t k, StridedMatrix<float> a, StridedMatrix<float> b, float* c,
          int64_t ldc, bool accumulate = false);
void gemm(int64_t m, int64_t n, int64_t k, StridedMatrix<double> a, StridedMatrix<double> b,
          double* c, int64_t ldc, bool accumulate = false);

/// m · n · k · `batch`, saturating: multiply-adds for OpDef::multiply_adds.
int64_t count_multiply_adds(int64_t batch, int64_t m, int64_t n, int64_t k);

}  // namespace downhaul

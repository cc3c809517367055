#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/epilogue.h"

/// Matrix products in f32: C[m,n] = epilogue(bias[n] + sum over k of A[m,k] B[k,n]).
///
/// Nothing here allocates, fails or waits but for the pool; sizes may be 0 (k = 0 gives the bias).
/// Strides and leading dimensions count floats. A, B, bias and C must not overlap, but for
/// Epilogue::operand as said there. Buffers need no alignment beyond float's and nothing beyond
/// their last element is read or written; packed B wants 64 bytes for full speed.
///
/// Order of sums: one accumulator per result that starts as the bias, k ascending, each step fused
/// (std::fma) - on AVX2, AVX-512 and NEON bit for bit the same, whatever the tile and the number of
/// threads. The x86-64 baseline has no FMA and rounds product and sum apart. Kernels that sum in
/// another order (gemm_rows on [N,K]) say so; they too depend on neither ISA (with FMA) nor
/// threads.
namespace downhaul::kernels {

/// Columns of a panel of packed B, the same for every ISA.
inline constexpr int64_t kPanel = 32;

/// Bytes of packed B: ceil(n / 32) panels of [bias 32][k][32] floats.
size_t packed_b_bytes(int64_t n, int64_t k);

/// Where B[k,n] stands before packing: data + n * n_stride + k * k_stride. Weights of a linear
/// layer, [N,K] row-major, have n_stride = K, k_stride = 1; a matrix [K,N] n_stride = 1,
/// k_stride = N. When `run` > 0, k counts taps of `run` channels: data + n * n_stride
/// + (k / run) * tap_stride + (k % run) * k_stride. Convolution weights [O, C, kh, kw] have
/// run = C, tap_stride = 1, k_stride = kh kw, n_stride = C kh kw (taps in row-major order).
struct BSource {
  const float* data = nullptr;
  int64_t n_stride = 0;
  int64_t k_stride = 0;
  int64_t run = 0;
  int64_t tap_stride = 0;
};

/// Packs B[k,n] with its bias (null: zeros) to `dst` of packed_b_bytes(n, k), padded with zeros.
void pack_b(const BSource& b, int64_t n, int64_t k, const float* bias, float* dst,
            ThreadPool& pool);
/// Packs panels [first, last) alone, on the caller: for those who give memory back between panels.
void pack_b_panels(const BSource& b, int64_t n, int64_t k, const float* bias, int64_t first,
                   int64_t last, float* dst);

/// A is [m,k] with rows `lda` apart, C [m,n] with rows `ldc` apart (or scattered).
void gemm(const float* a, int64_t lda, int64_t m, const float* packed_b, int64_t n, int64_t k,
          float* c, int64_t ldc, const Epilogue& epilogue, ThreadPool& pool);

/// Offset of a run that is not there: it reads zeros (padding of a convolution).
inline constexpr int32_t kZeroRun = -1;

/// A given by reference: row r, tap t is the run of `run` floats that begins at
/// base + (r / rows) * image_stride + offsets[(r % rows) * taps + t], so that k = taps * run and a
/// convolution needs no copy of its input. Offsets are >= 0 or kZeroRun.
struct IndirectA {
  const float* base = nullptr;
  const int32_t* offsets = nullptr;  ///< [rows][taps]
  const float* zeros = nullptr;      ///< `run` zeros; needed when an offset is kZeroRun
  int64_t rows = 0;                  ///< rows (output pixels) of one image
  int64_t image_stride = 0;
  int64_t taps = 0;
  int64_t run = 0;
};
/// m = images * a.rows; packed_b was made with k = a.taps * a.run.
void gemm_indirect(const IndirectA& a, int64_t m, const float* packed_b, int64_t n, float* c,
                   int64_t ldc, const Epilogue& epilogue, ThreadPool& pool);

/// Few rows (m <= kMaxRows) times a matrix that is read once, where it lies.
inline constexpr int64_t kMaxRows = 8;
/// B is [n,k] row-major with rows `ldb` apart (a linear layer's weights). Reassociates: 16 partial
/// sums (k modulo 16), fused, then added 0+8, 1+9, ... 0+4, ... 0+2, ... 0+1; then the bias.
void gemm_rows_nk(const float* a, int64_t lda, int64_t m, const float* b, int64_t ldb, int64_t n,
                  int64_t k, const float* bias, float* c, int64_t ldc, const Epilogue& epilogue,
                  ThreadPool& pool);
/// B is [k,n] row-major with rows `ldb` apart. Order of sums as in gemm.
void gemm_rows_kn(const float* a, int64_t lda, int64_t m, const float* b, int64_t ldb, int64_t n,
                  int64_t k, const float* bias, float* c, int64_t ldc, const Epilogue& epilogue,
                  ThreadPool& pool);

/// A batch of products of which neither side is constant. Index (i, j) of the batch, i < batch[0],
/// j < batch[1], begins at data + i * batch_stride[0] + j * batch_stride[1] (0 broadcasts).
struct Operand {
  const float* data = nullptr;
  int64_t batch_stride[2] = {0, 0};
  int64_t row_stride = 0;     ///< A: m, B: k
  int64_t column_stride = 1;  ///< A: k, B: n; a transposed operand has row_stride 1
};
struct Matmul {
  int64_t batch[2] = {1, 1};
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  Operand a;
  Operand b;
  float* c = nullptr;  ///< rows c_row_stride apart, columns contiguous
  int64_t c_batch_stride[2] = {0, 0};
  int64_t c_row_stride = 0;
  /// Scatter is not supported here; the operand's batches are operand_batch_stride apart.
  Epilogue epilogue;
  int64_t operand_batch_stride[2] = {0, 0};
};
/// Scratch that `matmul` needs: shapes and strides matter, pointers do not. 64-byte aligned.
size_t matmul_scratch_bytes(const Matmul& call, int num_threads);
void matmul(const Matmul& call, void* scratch, ThreadPool& pool);

}  // namespace downhaul::kernels

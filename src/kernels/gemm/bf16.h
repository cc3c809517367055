#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/thread_pool.h"
#include "kernels/epilogue.h"
#include "kernels/gemm/gemm.h"

/// Products with both factors rounded to bf16 (to nearest even) and sums in f32:
/// C[m,n] = epilogue(bias[n] + sum over k of bf16(A[m,k]) bf16(B[k,n])).
///
/// A product of two bf16 numbers is exact in f32, so results differ from those of `gemm` by the
/// rounding of the factors, 2^-8 each at most, and by the order of sums: pairs of k ascending. The
/// CPU's own instruction (AVX-512-BF16) rounds inside a pair as it likes and takes denormal numbers
/// for 0; elsewhere both products of a pair are added one after the other, with FMA where there is
/// one. Results depend on neither tiles nor threads.
///
/// Nothing here allocates or fails; buffers as in gemm.h. Scatter (Epilogue::head_dim) is not
/// supported.
namespace downhaul::kernels {

/// Bytes of packed B: ceil(n / 32) panels of [bias 32, f32][ceil(k / 2)][32] pairs; the element of
/// even k is the lower half of a pair.
size_t packed_bf16_bytes(int64_t n, int64_t k);
/// Rounds and packs B[k,n] with its bias (null: zeros), padded with zeros. `b.run` must be 0.
void pack_b_bf16(const BSource& b, int64_t n, int64_t k, const float* bias, void* dst,
                 ThreadPool& pool);

/// Memory for A, rounded: 64-byte aligned.
size_t gemm_bf16_scratch_bytes(int64_t m, int64_t k);
/// A is [m,k] with rows `lda` apart, C [m,n] with rows `ldc` apart.
void gemm_bf16(const float* a, int64_t lda, int64_t m, const void* packed_b, int64_t n, int64_t k,
               float* c, int64_t ldc, const Epilogue& epilogue, void* scratch, ThreadPool& pool);

/// Whether the ISA in use has an instruction for it; else it is emulated in f32.
bool has_bf16_products();

}  // namespace downhaul::kernels

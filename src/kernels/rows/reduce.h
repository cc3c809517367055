#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "kernels/elementwise/loops.h"

/// Reductions over any set of dimensions of a row-major tensor. Nothing allocates or fails but
/// plan_reduce; results do not depend on threads.
namespace downhaul::kernels {

enum class ReduceOp : uint8_t {
  kSum,   ///< i64 (wraps), f32, f64; of nothing 0
  kMean,  ///< f32, f64; of nothing NaN
  kProd,  ///< i64 (wraps), f32, f64; of nothing 1
  kVar,   ///< f32, f64: Σ (x - mean)² / max(0, n - correction)
  kAmax,  ///< any type but f16, bf16; NaN if there is one. Of something.
  kAmin,
  kAll,  ///< any type but f16, bf16, result bool; of nothing true
  kAny,  ///< the same; of nothing false
};

constexpr bool gives_bool(ReduceOp op) { return op == ReduceOp::kAll || op == ReduceOp::kAny; }
bool is_supported(ReduceOp op, Element element);

/// f32 sums are kept in f32 for up to 4096 elements of a contiguous run (64 partial sums, as in
/// norm.h) or 16 rows, and beyond that in f64; products and f64 in f64.
struct Reduce {
  ReduceOp op = ReduceOp::kSum;
  Element element = Element::kF32;
  double correction = 1;  ///< kVar
  int64_t count = 0;      ///< elements that make one result
  int64_t results = 0;
  /// Kept and reduced dimensions, outermost first, neighbours merged; strides in elements.
  int kept_rank = 0;
  int reduced_rank = 0;
  std::array<int64_t, Loops::kMaxRank> kept_sizes{};
  std::array<int64_t, Loops::kMaxRank> kept_strides{};
  std::array<int64_t, Loops::kMaxRank> reduced_sizes{};
  std::array<int64_t, Loops::kMaxRank> reduced_strides{};
};
/// `dims` are different dimensions of `sizes`. Nothing when more dimensions are left than fit.
std::optional<Reduce> plan_reduce(ReduceOp op, Element element, Extents sizes, Extents dims,
                                  double correction = 1);
/// result: row-major over the kept dimensions, of the same element type or bool. The op must be
/// supported, and a size of 0 must not be reduced by kAmax and kAmin.
void reduce(const Reduce& plan, const void* in, void* result, ThreadPool& pool);

/// Position along the middle of [outer, size, inner] of the largest (smallest) element, the first
/// one on ties; NaN is the largest and the smallest. size > 0. Any type but f16, bf16.
void argmax(Element element, int64_t outer, int64_t size, int64_t inner, const void* in,
            int64_t* result, ThreadPool& pool);
void argmin(Element element, int64_t outer, int64_t size, int64_t inner, const void* in,
            int64_t* result, ThreadPool& pool);

/// Running sums along the middle of [outer, size, inner]; i64 wraps, f32 and f64 are summed in f64.
void cumsum(Element element, int64_t outer, int64_t size, int64_t inner, const void* in,
            void* result, ThreadPool& pool);

/// The k best along the middle of [outer, size, inner], best first, equal ones in the order of
/// their positions; NaN is the largest. values, indices [outer, k, inner]. k <= size. Scratch:
/// topk_scratch_bytes, 8-byte aligned.
int64_t topk_scratch_bytes(int64_t size, int num_threads);
void topk(Element element, int64_t outer, int64_t size, int64_t inner, int64_t k, bool largest,
          const void* in, void* values, int64_t* indices, void* scratch, ThreadPool& pool);

}  // namespace downhaul::kernels

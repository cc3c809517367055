#pragma once

#include <cstdint>

/// Vector parts of reductions of f32, for reduce.cc and search.cc.
namespace downhaul::kernels {

/// Over n contiguous elements.
struct RunKernels {
  double (*sum)(const float* x, int64_t n);
  double (*squares)(const float* x, float center, int64_t n);  ///< Σ (x - center)²
  /// The largest (smallest) of `best` and the elements; NaN if there is one.
  float (*largest)(float best, const float* x, int64_t n);
  float (*smallest)(float best, const float* x, int64_t n);
  /// The first element that equals `value`, or the first NaN when that is one; n when none does.
  int64_t (*find)(const float* x, float value, int64_t n);
};
/// For the instruction set in use.
RunKernels run_kernels();

/// Columns that are reduced side by side.
inline constexpr int64_t kColumns = 128;

/// Over `rows` rows of `columns` <= kColumns elements, `stride` apart, into what is there.
struct ColumnKernels {
  void (*sum)(const float* x, int64_t stride, int64_t rows, int64_t columns, double* sums);
  void (*largest)(const float* x, int64_t stride, int64_t rows, int64_t columns, float* best);
  void (*smallest)(const float* x, int64_t stride, int64_t rows, int64_t columns, float* best);
};
ColumnKernels column_kernels();

}  // namespace downhaul::kernels

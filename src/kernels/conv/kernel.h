#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/conv/conv.h"

/// One way to compute a convolution: a row of conv/kernels.inc.
namespace downhaul::kernels {

struct ConvSizes {
  size_t packed = 0, table = 0, scratch = 0;  // bytes
};

struct ConvKernel {
  std::string_view name;
  bool reassociates = false;  ///< sums in another order than conv.h states
  /// Depends on channels and window alone, but for sizes beyond 32-bit offsets.
  bool (*can_run)(const Conv2d& conv);
  ConvSizes (*sizes)(const Conv2d& conv, int num_threads);
  void (*pack)(const Conv2d& conv, const float* weight, const float* bias, float* packed,
               ThreadPool& pool);
  void (*build_table)(const Conv2d& conv, int32_t* table);  ///< null when there is none
  void (*run)(const Conv2d& conv, const float* in, const float* packed, const int32_t* table,
              const Epilogue& epilogue, float* out, void* scratch, ThreadPool& pool);
};

/// In order of preference; the last one runs everything.
std::span<const ConvKernel* const> conv_kernels();
/// A plan for one row, which must be able to run `conv`.
ConvPlan plan_conv2d_with(const ConvKernel& kernel, const Conv2d& conv, int num_threads);

#define DH_CONV(name) extern const ConvKernel name;
#include "kernels/conv/kernels.inc"
#undef DH_CONV

}  // namespace downhaul::kernels

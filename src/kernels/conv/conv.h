#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/thread_pool.h"
#include "kernels/epilogue.h"
#include "kernels/image/image.h"

/// Convolutions of NHWC images in f32, with bias and epilogue.
///
/// Life cycle: plan_conv2d (cheap) gives a plan and the sizes of three buffers that the caller
/// owns: `packed` holds weights and bias, depends on channels and window alone and so serves every
/// image size and ISA; `table` holds offsets and depends on sizes and strides too; `scratch` is
/// needed during the run only. pack_conv2d and build_conv2d_table fill the first two once;
/// run_conv2d neither allocates nor fails. All buffers are 64-byte aligned; sizes are in bytes.
///
/// Order of sums, for rows that do not say `reassociates`: one accumulator per result that starts
/// as the bias; taps in row-major order, within a tap the channels of the group; fused steps. Taps
/// on the padding are left out or add zeros. See gemm.h for what that means per ISA.
namespace downhaul::kernels {

/// out[n, y, x, o] = epilogue(bias[o] + sum over taps (i, j) and channels c of o's group of
///   in[n, y·stride_h - top + i·dilation_h, x·stride_w - left + j·dilation_w, c] · w[o, c, i, j]).
struct Conv2d {
  Image in;                  ///< stride: elements from pixel to pixel, at least channels
  int64_t channels_out = 1;  ///< output channel o belongs to group o / (channels_out / groups)
  int64_t groups = 1;
  Window window;
  int64_t out_stride = 1;  ///< elements from pixel to pixel of the result
  /// The input is NCHW and contiguous (in.stride is not read). Only where can_read_planes().
  bool planes_in = false;
  /// Allows kernels that sum in another order: Winograd, with errors of about 2e-7
  /// of the largest sum of absolute products, twice those of sums in order.
  bool may_reassociate = false;

  int64_t height_out() const {
    return (in.height + window.top + window.bottom - window.dilation_h * (window.kernel_h - 1) -
            1) /
               window.stride_h +
           1;
  }
  int64_t width_out() const {
    return (in.width + window.left + window.right - window.dilation_w * (window.kernel_w - 1) - 1) /
               window.stride_w +
           1;
  }
};

/// Whether a convolution of few channels can take the NCHW input of a model as it is.
bool can_read_planes(const Conv2d& conv);

struct ConvKernel;  // conv/kernel.h

struct ConvPlan {
  Conv2d conv;
  const ConvKernel* kernel = nullptr;  ///< row of conv/kernels.inc
  size_t packed_bytes = 0;
  size_t table_bytes = 0;
  size_t scratch_bytes = 0;
};

/// Picks the first row of conv/kernels.inc that can do it. `num_threads` sizes the scratch.
ConvPlan plan_conv2d(const Conv2d& conv, int num_threads);
/// Name of the row, for profiles.
std::string_view kernel_name(const ConvPlan& plan);

/// `weight` [channels_out, channels_in / groups, kernel_h, kernel_w] contiguous; `bias`
/// [channels_out] or null.
void pack_conv2d(const ConvPlan& plan, const float* weight, const float* bias, float* packed,
                 ThreadPool& pool);
void build_conv2d_table(const ConvPlan& plan, int32_t* table);

/// Epilogue: row = (n·height_out + y)·width_out + x, column = output channel; no scatter.
/// `in` and `out` do not overlap. `pool` has at most the threads that were planned for.
void run_conv2d(const ConvPlan& plan, const float* in, const float* packed, const int32_t* table,
                const Epilogue& epilogue, float* out, void* scratch, ThreadPool& pool);

/// A 1x1 convolution and the depthwise one that alone reads its result, in one pass over the image:
/// the expanded image, several times as large as both ends, stays in cache. Both are planned and
/// packed as usual; the result has the same bits as one after the other.
bool can_fuse_expand(const ConvPlan& expand, const ConvPlan& depthwise);
/// Whether it is worth while, by the size of the expanded image.
bool is_fusing_expand_faster(const ConvPlan& expand, const ConvPlan& depthwise);
size_t fused_expand_scratch_bytes(const ConvPlan& depthwise, int num_threads);
/// `expand_epilogue` has no operand; depthwise.conv.in.stride and expand.conv.out_stride are not
/// read.
void run_fused_expand(const ConvPlan& expand, const float* in, const float* expand_packed,
                      const Epilogue& expand_epilogue, const ConvPlan& depthwise,
                      const float* packed, const Epilogue& epilogue, float* out, void* scratch,
                      ThreadPool& pool);

/// A 1x1 convolution of one image whose input channels are first multiplied by a gate (squeeze and
/// excite): weights times gate give the same sums, each product rounded once elsewhere, and spare a
/// pass over the image. Run the plan with `gated` (of plan.packed_bytes) in the place of `packed`.
bool can_gate(const ConvPlan& plan);
/// Whether there are fewer weights than elements of the image.
bool is_gating_faster(const ConvPlan& plan);
/// `gate` [channels].
void gate_weights(const ConvPlan& plan, const float* packed, const float* gate, float* gated,
                  ThreadPool& pool);

}  // namespace downhaul::kernels

#pragma once

#include <array>
#include <cstdint>

#include "base/thread_pool.h"

/// Kernels on images of f32 that are not convolutions, and the reordering of dimensions.
///
/// An NHWC image has element (n, y, x, c) at data[((n·height + y)·width + x)·stride + c]; stride is
/// at least channels, so that a slice of the channels of a wider image is an image too. Inputs and
/// results do not overlap unless said. Nothing here allocates or fails: the planner hands in only
/// what the operators' inference accepted (src/ops/pool.cc, upsample.cc). Results depend neither on
/// the number of threads nor, pools and resizes being the same operations in the same order for
/// each channel, on the instruction set, except where multiplication and addition may contract.
namespace downhaul::kernels {

struct Image {
  int64_t batch = 1, height = 1, width = 1, channels = 1;
  int64_t stride = 1;  ///< elements from pixel to pixel
};

/// The distance of pixels that kernels like best for that many channels: whole cache lines, and no
/// multiple of 2 KiB, where neighbouring pixels push each other out of the first cache.
inline int64_t image_stride(int64_t channels) {
  if (channels < 32) return channels;
  const int64_t lines = (channels + 15) / 16;
  return 16 * (lines % 32 == 0 ? lines + 1 : lines);
}

/// Which elements of the input a result covers: rows y·stride_h - top + i·dilation_h, i < kernel_h.
struct Window {
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t top = 0, left = 0, bottom = 0, right = 0;  ///< padding
  int64_t dilation_h = 1, dilation_w = 1;
};

/// The largest element under each window that lies on the image; NaN wins. `out` has the batch and
/// channels of `in`.
void max_pool2d(const Image& in, const Image& out, const Window& window, const float* from,
                float* to, ThreadPool& pool);

/// The sum under each window divided by `divisor`, or when that is 0 by the elements of the window
/// on the image or, with count_include_pad, on the padded image. Sums in f32, a partial sum for
/// each row of the window.
void avg_pool2d(const Image& in, const Image& out, const Window& window, bool count_include_pad,
                double divisor, const float* from, float* to, ThreadPool& pool);

/// Mean over bins, bin i of n covering floor(i·H/n) up to ceil((i+1)·H/n). Sums in f32 along rows
/// and then f64 over rows. `scratch` has adaptive_avg_pool2d_scratch(in, out) floats.
int64_t adaptive_avg_pool2d_scratch(const Image& in, const Image& out);
void adaptive_avg_pool2d(const Image& in, const Image& out, const float* from, float* to,
                         float* scratch, ThreadPool& pool);

/// The two source elements that a result element mixes along one axis, and the weight of the
/// second.
struct ResizeTap {
  int32_t low = 0, high = 0;
  float weight = 0;
};
/// Fills taps[0, out). `scale` is the factor of an explicit scale, 0 for out / in; align_corners
/// ignores it. Positions in f64.
void bilinear_taps(int64_t in, int64_t out, bool align_corners, double scale, ResizeTap* taps);
/// Fills indices[0, out) with the element shown. Positions in f32.
void nearest_indices(int64_t in, int64_t out, double scale, int32_t* indices);

/// Bilinear resize in NHWC. `rows` and `columns` from bilinear_taps.
void resize_bilinear(const Image& in, const Image& out, const ResizeTap* rows,
                     const ResizeTap* columns, const float* from, float* to, ThreadPool& pool);
/// Bilinear resize of planes [N·C, H, W], contiguous; for a result that is wanted in NCHW, where it
/// saves the transposition of the larger image. `scratch` has resize_planes_scratch(width_out,
/// pool.num_threads()) floats. Same bits as resize_bilinear.
int64_t resize_planes_scratch(int64_t width_out, int num_threads);
void resize_bilinear_planes(int64_t planes, int64_t height_in, int64_t width_in, int64_t height_out,
                            int64_t width_out, const ResizeTap* rows, const ResizeTap* columns,
                            const float* from, float* to, float* scratch, ThreadPool& pool);
/// Nearest neighbour in NHWC. `rows` and `columns` from nearest_indices.
void resize_nearest(const Image& in, const Image& out, const int32_t* rows, const int32_t* columns,
                    const float* from, float* to, ThreadPool& pool);

/// out[n, y, x, c] = in[n, y, x, c] · scale[n, c]; scale [N][C] is contiguous. In place is allowed.
void scale_channels(const Image& image, const float* scale, const float* from, float* to,
                    int64_t to_stride, ThreadPool& pool);

/// A copy between two strided views of the same sizes, prepared once.
struct PermutePlan {
  static constexpr int kMaxRank = 8;
  int rank = 0;  ///< after dropping ones and joining; the last dimension is that of `to`
  int64_t element_size = 4;
  std::array<int64_t, kMaxRank> sizes{}, from{}, to{};  ///< strides in elements
  int across = -1;  ///< the dimension in which `from` is contiguous, when it is not the last
};
/// `sizes`, `from` and `to` have `rank` <= 8 entries; strides in elements, 0 in `from` repeats.
/// element_size 1, 2, 4 or 8 bytes. The strides of `to` address each element once.
PermutePlan plan_permute(int rank, const int64_t* sizes, const int64_t* from, const int64_t* to,
                         int64_t element_size);
/// The plan of out = permute(in, order) of contiguous tensors: dimension d of out is order[d] of
/// in.
PermutePlan plan_permute_dims(int rank, const int64_t* in_sizes, const int64_t* order,
                              int64_t element_size);
void permute(const PermutePlan& plan, const void* from, void* to, ThreadPool& pool);

}  // namespace downhaul::kernels

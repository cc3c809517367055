#pragma once

#include <cstdint>

/// The inner loops of depthwise convolution. Packed weights: [channels_out / 32][bias 32][tap][32].
namespace downhaul::kernels {

/// Some results of one row.
struct DepthwiseRow {
  /// [tap_rows]: where the pixels of a row of taps stand. Tap (i, j) of result x reads channel 0 of
  /// its pixel at pixels[i][x * stride + j], be it on the image or zeros.
  const float* const* const* pixels;
  int64_t first_tap_row, tap_rows;  ///< those on the image
  const float* packed;
  int64_t block;  ///< floats of packed weights per 32 channels
  int64_t first_channel, last_channel;
  int64_t count;  ///< results
  float* out;     ///< channel 0 of the first
  int64_t out_step;
  float lo, hi;
};

/// One result by any kernel, its taps on the image listed.
struct DepthwisePixel {
  const float* const* pixels;
  const int32_t* taps;
  int64_t count;
  const float* packed;
  int64_t block;
  int64_t channels_out, multiplier;
  float* out;
};

using DepthwiseRowFn = void (*)(const DepthwiseRow&);
/// For kernels 3, 5 or 7 columns wide and strides 1 or 2 (7: 1), for the ISA in use.
DepthwiseRowFn depthwise_row_fn(int64_t kernel_w, int64_t stride_w);

using DepthwisePixelFn = void (*)(const DepthwisePixel&);
DepthwisePixelFn depthwise_pixel_fn();

}  // namespace downhaul::kernels

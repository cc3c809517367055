#pragma once

#include <string_view>

#include "ops/infer.h"

/// Sliding windows over images: what convolutions and pools have in common.
namespace downhaul {

/// An image's type by meaning, whatever its layout.
struct ImageShape {
  Dim batch;
  Dim channels;
  Dim height;
  Dim width;

  Shape as(bool nhwc) const {
    return nhwc ? Shape{batch, height, width, channels} : Shape{batch, channels, height, width};
  }
};

/// Checks that `arg` has rank 4 and that `layout` is "nchw" or "nhwc".
Result<ImageShape> image_shape(const Node& node, std::string_view arg);

/// Number of positions of a window of `extent` elements (kernel after dilation) on `size` elements
/// with `before` and `after` of padding. With `ceil_mode` a last window may reach beyond, unless it
/// starts beyond the elements and the padding before them.
/// Errors: kInvalidGraph when not one window fits.
Result<Dim> window_count(std::string_view what, const Dim& size, int64_t extent, int64_t stride,
                         int64_t before, int64_t after, bool ceil_mode);

}  // namespace downhaul

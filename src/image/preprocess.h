#pragma once

#include <cstdint>
#include <vector>

#include "formats/spec/spec.h"
#include "image/image.h"

/// From a picture to what a vision model takes, and back from the model's pixels to the picture's.
namespace downhaul {

/// Where the picture lies in the model's input: input pixel = offset + scale * picture pixel, each
/// measured from the top left corner of the top left pixel.
struct Placement {
  int64_t picture_width = 0, picture_height = 0;
  int64_t input_width = 0, input_height = 0;
  double scale_x = 1, scale_y = 1;
  double offset_x = 0, offset_y = 0;
  /// The part of the input, in whole pixels, that shows the picture; the rest is padding.
  int64_t left = 0, top = 0, width = 0, height = 0;
};

struct PreparedImage {
  std::vector<float> values;  ///< [3, input_height, input_width], row-major
  Placement placement;
};

/// The steps of `how`, in this order:
///   letterbox     the whole picture, resized to fit without distortion, centred on black
///   resize        to height x width, or so that the shorter side has the given length (the longer
///                 one rounded down)
///   center_crop   the middle (offsets rounded half to even), black where the picture ends
///   normalise     (value / 255 - mean) / std for red, green, blue; without mean or std, 0 and 1
/// then, if the size is not yet height x width and `how` asked for none, resize to it. Missing
/// interpolation means bilinear. `how` without any size: resize to height x width.
/// Errors: kInvalidArgument when the steps end at another size than height x width (both named),
/// or for an unknown interpolation or a std of 0.
/// Source: torchvision's transforms on pictures (Resize, CenterCrop, ToTensor, Normalize).
Result<PreparedImage> prepare_image(const Image& image, const Preprocessing& how, int64_t height,
                                    int64_t width);

}  // namespace downhaul

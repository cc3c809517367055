#pragma once

#include <optional>
#include <string_view>

#include "image/image.h"

namespace downhaul {

enum class Interpolation { kNearest, kBox, kBilinear, kBicubic, kLanczos };

/// "nearest", "box", "bilinear", "bicubic", "lanczos" (and the spelling of the Python enumeration:
/// "InterpolationMode.BILINEAR"); nullopt for others.
std::optional<Interpolation> interpolation_from_name(std::string_view name);

/// Resamples to width x height (both > 0). When a side shrinks, the filter is widened by the same
/// factor, so that every source pixel counts (anti-aliasing); its weights are rounded to 22 bits
/// and each of the two passes, rows first, rounds to 8 bits: what Pillow does, and with it
/// torchvision on pictures. kNearest takes the pixel under the centre. Alpha is resampled like a
/// colour.
Image resize(const Image& image, int64_t width, int64_t height, Interpolation interpolation);

/// The same without rounding, for one plane of floats [height, width]; anti-aliased too.
std::vector<float> resize_plane(const std::vector<float>& plane, int64_t from_width,
                                int64_t from_height, int64_t width, int64_t height,
                                Interpolation interpolation);

}  // namespace downhaul

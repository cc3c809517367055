#pragma once

#include <cstdint>

#include "image/image.h"

/// The two codecs, and what they share. For decode_image.
namespace downhaul::image {

struct Decoded {
  Image image;
  int orientation = 1;  ///< of EXIF, 1..8; 1 is upright
};

Result<Decoded> decode_png(Bytes bytes, const ImageLimits& limits);
Result<Decoded> decode_jpeg(Bytes bytes, const ImageLimits& limits);

/// Errors: kInvalidFile for an empty picture or one above the limit.
Status check_size(uint64_t width, uint64_t height, const ImageLimits& limits);

/// Errors: kInvalidFile when `file_bytes` cannot hold a picture of `packed_bytes` (samples as the
/// format packs them), given that it compresses `ratio` : 1 at best. Judged before memory is asked
/// for, so that a short file cannot ask for much.
Status check_compression(uint64_t packed_bytes, uint64_t ratio, uint64_t file_bytes);

/// The orientation tag of a TIFF header with its first directory; 1 when it is absent, damaged or
/// out of range.
int exif_orientation(Bytes tiff);

/// The picture as EXIF orientation 1..8 wants it shown.
Image turn_upright(Image image, int orientation);

}  // namespace downhaul::image

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

/// Pictures in memory, and PNG and JPEG files. README.md in this folder says what is read how.
namespace downhaul {

/// 8-bit samples, rows from the top, channels interleaved: grey (1), RGB (3) or RGBA (4, alpha not
/// multiplied into the colours). Samples are display values (sRGB) as stored; no gamma is applied.
struct Image {
  int64_t width = 0;
  int64_t height = 0;
  int channels = 3;
  std::vector<uint8_t> pixels;  ///< height * width * channels

  Image() = default;
  /// All samples 0.
  Image(int64_t w, int64_t h, int c);

  uint8_t* row(int64_t y) { return pixels.data() + y * width * channels; }
  const uint8_t* row(int64_t y) const { return pixels.data() + y * width * channels; }
};

struct ImageLimits {
  /// Width times height above this is refused before anything is decoded: a picture of a few bytes
  /// may claim billions of pixels. The default holds what phones take (108 megapixels).
  int64_t max_pixels = int64_t{1} << 27;
};

/// Decodes a PNG or JPEG, turned upright as its EXIF orientation says. The result has 3 channels,
/// or 4 if the file has transparency; grey, palette, CMYK and 16-bit pictures are converted.
/// Errors: kInvalidFile for a damaged, truncated or oversized picture; kUnsupported for another
/// kind of file. Messages do not name the file.
Result<Image> decode_image(Bytes bytes, const ImageLimits& limits = {});

/// As decode_image. Errors: those, with the path; as MappedFile::open.
Result<Image> read_image(const std::string& path, const ImageLimits& limits = {});

/// Writes a PNG of the image's channels through OutputFile.
Status write_png(const std::string& path, const Image& image);
/// Writes a JPEG; alpha is dropped. quality 1..100 as in libjpeg, chroma at half resolution.
Status write_jpeg(const std::string& path, const Image& image, int quality = 90);

/// PNG bytes in memory.
Result<std::vector<uint8_t>> encode_png(const Image& image);
Result<std::vector<uint8_t>> encode_jpeg(const Image& image, int quality = 90);

/// The first three channels; grey is repeated, alpha dropped.
Image to_rgb(const Image& image);

}  // namespace downhaul

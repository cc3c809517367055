#include "image/image.h"

#include <utility>

#include "base/strings.h"
#include "image/codecs.h"

namespace downhaul {

Image::Image(int64_t w, int64_t h, int c)
    : width(w), height(h), channels(c), pixels(static_cast<size_t>(w * h * c)) {}

Status image::check_size(uint64_t width, uint64_t height, const ImageLimits& limits) {
  if (width == 0 || height == 0) {
    return invalid_file(cat("the picture is ", width, " x ", height, " pixels, expected some"));
  }
  const auto limit = static_cast<uint64_t>(limits.max_pixels);
  if (width > limit / height) {
    return invalid_file(cat("the picture is ", width, " x ", height, " pixels, expected at most ",
                            limit, " in all"));
  }
  return {};
}

Status image::check_compression(uint64_t packed_bytes, uint64_t ratio, uint64_t file_bytes) {
  if (packed_bytes / ratio > file_bytes) {
    return invalid_file(cat("the file is too short for its picture: ", file_bytes,
                            " bytes, expected at least ", packed_bytes / ratio));
  }
  return {};
}

Result<Image> decode_image(Bytes bytes, const ImageLimits& limits) {
  static constexpr std::string_view kPng = "\x89PNG\r\n\x1a\n";
  static constexpr std::string_view kJpeg = "\xff\xd8\xff";
  if (bytes.empty()) return invalid_file("expected a PNG or JPEG image, the file is empty");
  const std::string_view text = as_text(bytes);
  if (!text.starts_with(kPng) && !text.starts_with(kJpeg)) {
    return unsupported(
        cat("expected a PNG or JPEG image, found bytes \"", printable(text.substr(0, 8)), "\""));
  }
  DH_ASSIGN(image::Decoded decoded, text.starts_with(kPng) ? image::decode_png(bytes, limits)
                                                           : image::decode_jpeg(bytes, limits));
  return image::turn_upright(std::move(decoded.image), decoded.orientation);
}

Result<Image> read_image(const std::string& path, const ImageLimits& limits) {
  DH_ASSIGN(const auto file, MappedFile::open(path));
  auto image = decode_image(file->bytes(), limits);
  if (!image.ok()) {
    return std::move(image).status().with_context(cat("'", printable(path), "'"));
  }
  return image;
}

Status write_png(const std::string& path, const Image& image) {
  DH_ASSIGN(const auto bytes, encode_png(image));
  return write_file(path, bytes);
}

Status write_jpeg(const std::string& path, const Image& image, int quality) {
  DH_ASSIGN(const auto bytes, encode_jpeg(image, quality));
  return write_file(path, bytes);
}

Image to_rgb(const Image& image) {
  if (image.channels == 3) return image;
  Image rgb(image.width, image.height, 3);
  const int64_t count = image.width * image.height;
  for (int64_t i = 0; i < count; ++i) {
    for (int c = 0; c < 3; ++c) {
      rgb.pixels[static_cast<size_t>(i * 3 + c)] =
          image.pixels[static_cast<size_t>(i * image.channels + (image.channels == 1 ? 0 : c))];
    }
  }
  return rgb;
}

}  // namespace downhaul

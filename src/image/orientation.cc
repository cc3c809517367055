#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "image/codecs.h"

namespace downhaul::image {
namespace {

/// Numbers of a TIFF structure, in the byte order that its header states.
class Tiff {
 public:
  Tiff(Bytes bytes, bool little) : bytes_(bytes), little_(little) {}
  bool holds(uint64_t offset, uint64_t size) const { return in_range(offset, size, bytes_.size()); }
  uint32_t u16(uint64_t at) const { return number(at, 2); }
  uint32_t u32(uint64_t at) const { return number(at, 4); }

 private:
  uint32_t number(uint64_t at, uint64_t size) const {
    uint32_t value = 0;
    for (uint64_t i = 0; i < size; ++i) {
      value = (value << 8) | bytes_[at + (little_ ? size - 1 - i : i)];
    }
    return value;
  }
  Bytes bytes_;
  bool little_;
};

}  // namespace

int exif_orientation(Bytes bytes) {
  constexpr uint64_t kHeaderSize = 8;
  constexpr uint64_t kEntrySize = 12;
  constexpr uint32_t kOrientationTag = 0x0112;
  constexpr uint32_t kShort = 3;
  if (bytes.size() < kHeaderSize) return 1;
  const bool little = bytes[0] == 'I' && bytes[1] == 'I';
  if (!little && !(bytes[0] == 'M' && bytes[1] == 'M')) return 1;
  const Tiff tiff(bytes, little);
  if (tiff.u16(2) != 42) return 1;
  const uint64_t directory = tiff.u32(4);
  if (!tiff.holds(directory, 2)) return 1;
  const uint64_t count = tiff.u16(directory);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t entry = directory + 2 + i * kEntrySize;
    if (!tiff.holds(entry, kEntrySize)) return 1;
    if (tiff.u16(entry) != kOrientationTag || tiff.u16(entry + 2) != kShort) continue;
    const uint32_t value = tiff.u16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image turn_upright(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  // Where the stored row 0 and column 0 are shown, by the EXIF specification: 5 to 8 exchange the
  // axes; then the result is read from its right (2, 3, 6, 7) or bottom (3, 4, 7, 8).
  const bool exchange = orientation >= 5;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  Image out(exchange ? image.height : image.width, exchange ? image.width : image.height,
            image.channels);
  const auto size = static_cast<size_t>(image.channels);
  for (int64_t y = 0; y < out.height; ++y) {
    uint8_t* to = out.row(y);
    const int64_t v = from_bottom ? out.height - 1 - y : y;
    for (int64_t x = 0; x < out.width; ++x, to += size) {
      const int64_t u = from_right ? out.width - 1 - x : x;
      const uint8_t* from =
          exchange ? image.row(u) + v * image.channels : image.row(v) + u * image.channels;
      std::memcpy(to, from, size);
    }
  }
  return out;
}

}  // namespace downhaul::image

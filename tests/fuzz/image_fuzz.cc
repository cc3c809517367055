#include "image/image.h"

#include "fuzz_target.h"

namespace downhaul {

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  Image image(17, 11, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<uint8_t>(i * 37 + i / 51);
  }
  Image grey(9, 9, 1);
  std::vector<std::vector<uint8_t>> seeds = {*encode_png(image), *encode_jpeg(image, 80),
                                             *encode_png(grey), *encode_jpeg(grey, 80)};
  // The same JPEG with an orientation: APP1 right behind the start marker.
  const std::vector<uint8_t> exif = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,    'M', 'M',
                                     0,    42,   0, 0,  0,   8,   0,   1,   1, 0x12, 0,   3,
                                     0,    0,    0, 1,  0,   6,   0,   0,   0, 0,    0,   0};
  std::vector<uint8_t> turned = seeds[1];
  turned.insert(turned.begin() + 2, exif.begin(), exif.end());
  const auto upright = decode_image(turned);
  DH_CHECK(upright.ok() && upright->width == 11);
  seeds.push_back(turned);
  return seeds;
}

}  // namespace downhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downhaul;
  // Small enough that a round is quick; the limit itself is one of the checks.
  const auto image = decode_image({data, size}, {.max_pixels = 1 << 16});
  if (!image.ok()) {
    check_message(image.status());
    return 0;
  }
  DH_CHECK(image->pixels.size() == static_cast<size_t>(image->width * image->height) *
                                       static_cast<size_t>(image->channels));
  touch(image->pixels);
  return 0;
}

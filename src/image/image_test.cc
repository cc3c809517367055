#include "image/image.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/strings.h"
#include "image/codecs.h"
#include "image/preprocess.h"
#include "image/resize.h"

namespace downhaul {
namespace {

/// Colours that change along both axes, so that a mistaken transform shows.
Image gradient(int64_t width, int64_t height, int channels) {
  Image image(width, height, channels);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        image.row(y)[x * channels + c] =
            static_cast<uint8_t>((x * (7 + c) + y * (13 + 5 * c) + c * 40) % 256);
      }
    }
  }
  return image;
}

TEST(Png, ReturnsWhatWasWritten) {
  for (const int channels : {3, 4}) {
    const Image image = gradient(13, 7, channels);
    const auto bytes = encode_png(image);
    ASSERT_TRUE(bytes.ok());
    const auto back = decode_image(*bytes);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_EQ(back->channels, channels);
    EXPECT_EQ(back->pixels, image.pixels);
  }
}

TEST(Png, RepeatsGrey) {
  const Image image = gradient(5, 3, 1);
  const auto bytes = encode_png(image);
  ASSERT_TRUE(bytes.ok());
  const auto back = decode_image(*bytes);
  ASSERT_TRUE(back.ok());
  ASSERT_EQ(back->channels, 3);
  EXPECT_EQ(back->pixels, to_rgb(image).pixels);
}

TEST(Jpeg, ReturnsNearlyWhatWasWritten) {
  Image image(32, 24, 3);
  for (int64_t y = 0; y < 24; ++y) {
    for (int64_t x = 0; x < 32 * 3; ++x) image.row(y)[x] = static_cast<uint8_t>(60 + x + y);
  }
  const auto bytes = encode_jpeg(image, 95);
  ASSERT_TRUE(bytes.ok());
  const auto back = decode_image(*bytes);
  ASSERT_TRUE(back.ok()) << back.status().message();
  ASSERT_EQ(back->pixels.size(), image.pixels.size());
  double sum = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    sum += std::abs(int{back->pixels[i]} - int{image.pixels[i]});
  }
  EXPECT_LT(sum / static_cast<double>(image.pixels.size()), 3);
}

TEST(Decode, RefusesEveryTruncation) {
  const Image image = gradient(40, 30, 3);
  for (const bool jpeg : {false, true}) {
    const auto bytes = jpeg ? encode_jpeg(image) : encode_png(image);
    ASSERT_TRUE(bytes.ok());
    for (size_t size = 0; size < bytes->size(); ++size) {
      const auto got = decode_image(Bytes(*bytes).first(size));
      ASSERT_FALSE(got.ok()) << (jpeg ? "JPEG" : "PNG") << " of " << size << " bytes";
      EXPECT_FALSE(got.status().message().empty());
    }
  }
}

TEST(Decode, RefusesASizeThatTheFileCannotHold) {
  auto png = *encode_png(gradient(4, 4, 3));
  png[16] = 0;
  png[17] = png[21] = 0;
  png[18] = png[22] = 0x20;  // 8192 x 8192, with the checksum of 4 x 4
  const auto got = decode_image(png);
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.status().message().find("too short"), std::string::npos) << got.status().message();
  const auto limited = decode_image(*encode_png(gradient(40, 30, 3)), {.max_pixels = 1199});
  ASSERT_FALSE(limited.ok());
  EXPECT_EQ(limited.status().message(),
            "the picture is 40 x 30 pixels, expected at most 1199 in all");
}

TEST(Decode, NamesWhatIsNoPicture) {
  const auto got = decode_image(as_bytes("GIF89a..."));
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().kind(), ErrorKind::kUnsupported);
  EXPECT_EQ(got.status().message(), "expected a PNG or JPEG image, found bytes \"GIF89a..\"");
}

TEST(Exif, OrientationsMoveTheFirstPixelWhereTheSpecificationSays) {
  // Corners of a 3 x 2 picture: 1 at the top left, 2 top right, 3 bottom left, 4 bottom right.
  Image image(3, 2, 1);
  image.pixels = {1, 0, 2, 3, 0, 4};
  const std::vector<std::vector<int>> corners = {{1, 2, 3, 4}, {2, 1, 4, 3}, {4, 3, 2, 1},
                                                 {3, 4, 1, 2}, {1, 3, 2, 4}, {3, 1, 4, 2},
                                                 {4, 2, 3, 1}, {2, 4, 1, 3}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image up = image::turn_upright(image, orientation);
    EXPECT_EQ(up.width, orientation < 5 ? 3 : 2);
    const std::vector<int> got = {up.row(0)[0], up.row(0)[up.width - 1], up.row(up.height - 1)[0],
                                  up.row(up.height - 1)[up.width - 1]};
    EXPECT_EQ(got, corners[static_cast<size_t>(orientation - 1)]) << orientation;
  }
}

TEST(Exif, ReadsBothByteOrdersAndBelievesNothing) {
  std::vector<uint8_t> little = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, 3,
                                 0,   1,   0,  0, 0, 6, 0, 0, 0, 0, 0,    0,    0};
  EXPECT_EQ(image::exif_orientation(little), 6);
  const std::vector<uint8_t> big = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0,
                                    3,   0,   0, 0,  1, 0, 8, 0, 0, 0, 0,    0,    0};
  EXPECT_EQ(image::exif_orientation(big), 8);
  for (size_t size = 0; size < 22; ++size) {
    EXPECT_EQ(image::exif_orientation(Bytes(little).first(size)), 1) << size;
  }
  little[18] = 9;
  EXPECT_EQ(image::exif_orientation(little), 1);
  little[4] = 0xff, little[5] = 0xff, little[6] = 0xff, little[7] = 0xff;
  EXPECT_EQ(image::exif_orientation(little), 1);
}

TEST(Resize, KeepsAFlatPictureFlat) {
  Image image(37, 23, 3);
  for (auto& p : image.pixels) p = 201;
  for (const auto how : {Interpolation::kNearest, Interpolation::kBox, Interpolation::kBilinear,
                         Interpolation::kBicubic, Interpolation::kLanczos}) {
    for (const auto& [w, h] : {std::pair{5, 91}, {37, 4}, {100, 23}, {1, 1}}) {
      const Image out = resize(image, w, h, how);
      ASSERT_EQ(out.width, w);
      ASSERT_EQ(out.height, h);
      for (const uint8_t p : out.pixels) ASSERT_EQ(p, 201);
    }
  }
}

TEST(Resize, AveragesWhatItShrinks) {
  // A checkerboard of single pixels: without anti-aliasing it would come out black or white.
  Image image(64, 64, 1);
  for (int64_t y = 0; y < 64; ++y) {
    for (int64_t x = 0; x < 64; ++x) image.row(y)[x] = (x + y) % 2 == 0 ? 255 : 0;
  }
  const Image out = resize(image, 8, 8, Interpolation::kBilinear);
  for (const uint8_t p : out.pixels) EXPECT_NEAR(p, 127.5, 1);
}

TEST(Resize, GivesTheSameUnderAnyNumberOfChannels) {
  const Image rgb = gradient(31, 17, 3);
  const Image small = resize(rgb, 12, 29, Interpolation::kBicubic);
  for (int c = 0; c < 3; ++c) {
    Image plane(31, 17, 1);
    for (size_t i = 0; i < plane.pixels.size(); ++i)
      plane.pixels[i] = rgb.pixels[i * 3 + static_cast<size_t>(c)];
    const Image out = resize(plane, 12, 29, Interpolation::kBicubic);
    for (size_t i = 0; i < out.pixels.size(); ++i) {
      ASSERT_EQ(out.pixels[i], small.pixels[i * 3 + static_cast<size_t>(c)]);
    }
  }
}

TEST(Prepare, LetterboxCentresThePictureOnBlack) {
  Image image(40, 20, 3);
  for (auto& p : image.pixels) p = 255;
  Preprocessing how;
  how.letterbox = true;
  how.resize = Preprocessing::Resize{16, 16, false};
  how.mean = {0.5, 0.5, 0.5};
  how.std = {0.25, 0.5, 1.0};
  const auto got = prepare_image(image, how, 16, 16);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->placement.top, 4);
  EXPECT_EQ(got->placement.height, 8);
  EXPECT_EQ(got->placement.left, 0);
  EXPECT_EQ(got->placement.width, 16);
  EXPECT_DOUBLE_EQ(got->placement.scale_x, 0.4);
  for (int c = 0; c < 3; ++c) {
    const float s = 0.25f * static_cast<float>(1 << c);
    for (int64_t y = 0; y < 16; ++y) {
      for (int64_t x = 0; x < 16; ++x) {
        const float expected = (y >= 4 && y < 12 ? 0.5f : -0.5f) / s;
        ASSERT_EQ(got->values[static_cast<size_t>((c * 16 + y) * 16 + x)], expected);
      }
    }
  }
}

TEST(Prepare, ResizesTheShorterSideAndCropsTheMiddle) {
  const Image image = gradient(30, 20, 3);
  Preprocessing how;
  how.resize = Preprocessing::Resize{10, 10, true};
  how.center_crop = {8, 8};
  const auto got = prepare_image(image, how, 8, 8);
  ASSERT_TRUE(got.ok()) << got.status().message();
  const Image small = resize(image, 15, 10, Interpolation::kBilinear);
  // (15 - 8) / 2 = 3.5 rounds to the even 4.
  for (int64_t y = 0; y < 8; ++y) {
    for (int64_t x = 0; x < 8; ++x) {
      ASSERT_EQ(got->values[static_cast<size_t>(y * 8 + x)],
                static_cast<float>(small.row(y + 1)[(x + 4) * 3]) / 255.0f);
    }
  }
  EXPECT_DOUBLE_EQ(got->placement.offset_x, -4);
  EXPECT_EQ(got->placement.width, 8);
}

TEST(Prepare, SaysWhatDoesNotFit) {
  Preprocessing how;
  how.center_crop = {9, 8};
  const auto got = prepare_image(gradient(30, 20, 3), how, 8, 8);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().message(), "preprocessing ends at 9 x 8 pixels, the model takes 8 x 8");
  how = {};
  how.interpolation = "cubist";
  EXPECT_FALSE(prepare_image(gradient(3, 3, 3), how, 8, 8).ok());
}

}  // namespace
}  // namespace downhaul

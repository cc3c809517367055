#include "dialects/mil/compress.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "base/strings.h"

namespace downhaul::coreml {
namespace {

std::string written(const std::function<Status(OutputFile&)>& write) {
  const std::string path = cat(testing::TempDir(), "/downhaul_compress_", ::getpid());
  auto out = OutputFile::create(path);
  EXPECT_TRUE(out.ok());
  EXPECT_TRUE(write(*out).ok());
  EXPECT_TRUE(out->commit().ok());
  const std::string bytes = *read_text_file(path);
  ::unlink(path.c_str());
  return bytes;
}

TEST(Halves, RoundToNearestEvenAndStayFinite) {
  EXPECT_EQ(half_of(1.0F), 0x3c00);
  EXPECT_EQ(half_of(-2.0F), 0xc000);
  EXPECT_EQ(half_of(1.0F + 0x1p-11F), 0x3c00);      // a tie, to even
  EXPECT_EQ(half_of(1.0F + 3 * 0x1p-11F), 0x3c02);  // the tie above, to even again
  EXPECT_EQ(half_of(0x1p-24F), 1);                  // the smallest
  EXPECT_EQ(half_of(0x1p-26F), 0);
  EXPECT_EQ(half_of(1e9F), 0x7bff);  // finite stays finite
  EXPECT_EQ(half_of(-std::numeric_limits<float>::max()), 0xfbff);
  EXPECT_EQ(half_of(std::numeric_limits<float>::infinity()), 0x7c00);
  for (uint32_t h = 0; h < 0x7c00; ++h) {
    EXPECT_EQ(half_of(half_to_float(static_cast<uint16_t>(h))), h);
  }
}

TEST(Int8, HoldsEveryWeightWithinHalfAStep) {
  const Tensor w = Tensor::from<float>({2, 3}, std::vector<float>{1, -2, 0.3F, 0, 0, 0});
  const auto scales = int8_scales(w);
  const std::string q = written([&](OutputFile& out) { return write_int8(w, scales, out); });
  ASSERT_EQ(q.size(), 6u);
  for (int64_t i = 0; i < 6; ++i) {
    const float scale = half_to_float(scales[static_cast<size_t>(i / 3)]);
    EXPECT_GT(scale, 0);
    const auto back = scale * static_cast<float>(static_cast<int8_t>(q[static_cast<size_t>(i)]));
    EXPECT_LE(std::fabs(back - w.at(i)), scale / 2);
  }
  EXPECT_EQ(static_cast<int8_t>(q[1]), -127);
}

TEST(Palette, IsExactWhereTheEntriesSuffice) {
  std::vector<float> values;
  for (int i = 0; i < 37; ++i) values.push_back(static_cast<float>(i % 5) - 2.5F);
  const Tensor w = Tensor::from<float>({37}, values);
  for (const int bits : {4, 6}) {
    const Palette p = palette_of(w, bits);
    ASSERT_EQ(p.entries.size(), size_t{1} << bits);
    const std::string packed = written([&](OutputFile& out) { return write_palette(w, p, out); });
    ASSERT_EQ(packed.size(), static_cast<size_t>((37 * bits + 7) / 8));
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t index = 0;
      for (size_t b = 0; b < static_cast<size_t>(bits); ++b) {
        const size_t bit = i * static_cast<size_t>(bits) + b;
        index |= (static_cast<uint32_t>(static_cast<uint8_t>(packed[bit / 8])) >> bit % 8 & 1) << b;
      }
      EXPECT_EQ(half_to_float(p.entries[index]), values[i]);
    }
  }
}

TEST(Palette, IsNoWorseThanEqualSteps) {
  std::vector<float> values;
  for (int i = 0; i < 4096; ++i) values.push_back(std::sin(static_cast<float>(i)) * 0.1F);
  const Tensor w = Tensor::from<float>({64, 64}, values);
  const Palette p = palette_of(w, 4);
  double error = 0, equal = 0;
  for (const float v : values) {
    const float half = half_to_float(half_of(v));
    error += std::pow(half_to_float(p.entries[p.nearest[half_of(v)]]) - half, 2);
    equal += std::pow(std::nearbyint(half * 75) / 75 - half, 2);
  }
  EXPECT_LT(error, equal);
}

}  // namespace
}  // namespace downhaul::coreml

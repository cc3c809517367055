#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "apps/app_model.h"
#include "apps/ranking.h"
#include "apps/segmentation.h"
#include "formats/test_files.h"

namespace downhaul {
namespace {

TEST(FolderOfModel, IsACheckpointItselfAndWhereAFileLies) {
  const std::string sample = std::string(DH_SOURCE_DIR) + "/samples/distilbert";
  EXPECT_EQ(folder_of_model(sample), sample);
  EXPECT_EQ(folder_of_model(sample + "/"), sample + "/");
  EXPECT_EQ(folder_of_model(sample + "/model.pt2"), sample);
  EXPECT_EQ(folder_of_model("model.pt2"), ".");
  TestFolder folder;
  const std::string package = folder.path() + "/model.mlpackage";
  std::filesystem::create_directory(package);
  folder.write("model.mlpackage/Manifest.json", "{}");
  EXPECT_EQ(folder_of_model(package), folder.path());
  EXPECT_EQ(folder_of_model(package + "/"), folder.path());
}

TEST(TopK, RanksAndSharesOut) {
  const std::vector<float> scores = {1, 3, NAN, 3, -INFINITY, 2};
  const auto top = top_k(scores, 10);
  ASSERT_EQ(top.size(), 6u);
  const std::vector<int64_t> order = {1, 3, 5, 0, 4, 2};
  double sum = 0;
  for (size_t i = 0; i < top.size(); ++i) {
    EXPECT_EQ(top[i].index, order[i]);
    sum += top[i].probability;
  }
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_NEAR(top[2].probability / top[0].probability, std::exp(-1.0), 1e-12);
  EXPECT_EQ(top_k(scores, 2).size(), 2u);
  EXPECT_TRUE(top_k({}, 3).empty());
}

/// Scores whose best class at (y, x) is given by `of`.
template <typename F>
Tensor scores_of(int64_t classes, int64_t height, int64_t width, F of) {
  std::vector<float> values(static_cast<size_t>(classes * height * width), 0.0f);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      values[static_cast<size_t>((of(y, x) * height + y) * width + x)] = 1;
    }
  }
  return Tensor::from<float>({1, classes, height, width}, values);
}

Placement letterboxed(int64_t width, int64_t height, int64_t side) {
  const auto got = prepare_image(Image(width, height, 3), {.letterbox = true}, side, side);
  EXPECT_TRUE(got.ok());
  return got->placement;
}

TEST(Segmentation, CountsThePictureAndNotItsPadding) {
  // A picture of 40 x 20 in 8 x 8: rows 2 to 5. The padding is of class 2, which must not win.
  const Placement placement = letterboxed(40, 20, 8);
  const Tensor scores = scores_of(3, 8, 8, [](int64_t y, int64_t x) -> int64_t {
    if (y < 2 || y > 5) return 2;
    return x < 3 ? 1 : 0;
  });
  const auto map = best_classes(scores, 3);
  ASSERT_TRUE(map.ok()) << map.status().message();
  const auto shares = class_shares(*map, placement);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].id, 0);
  EXPECT_EQ(shares[1].pixels, 12);
  EXPECT_DOUBLE_EQ(shares[1].share, 12.0 / 32);
  EXPECT_EQ(main_class(shares), 1);
  // In the picture's own size: the left 3/8 of all rows.
  const Image mask = hard_mask(class_alpha(*map, placement, 1));
  ASSERT_EQ(mask.width, 40);
  ASSERT_EQ(mask.height, 20);
  for (int64_t y = 0; y < 20; ++y) {
    for (int64_t x = 0; x < 40; ++x) EXPECT_EQ(mask.row(y)[x], x < 15 ? 255 : 0) << y << " " << x;
  }
}

TEST(Segmentation, PutsACroppedMaskWhereItBelongs) {
  const auto got = prepare_image(Image(30, 10, 3),
                                 {.resize = Preprocessing::Resize{10, 10, true},
                                  .center_crop = std::array<int64_t, 2>{10, 10}},
                                 10, 10);
  ASSERT_TRUE(got.ok());
  const auto map = best_classes(scores_of(2, 10, 10, [](int64_t, int64_t) { return 1; }), 0);
  ASSERT_TRUE(map.ok());
  const Image alpha = class_alpha(*map, got->placement, 1);
  for (int64_t x = 0; x < 30; ++x) EXPECT_EQ(alpha.row(5)[x], x >= 10 && x < 20 ? 255 : 0) << x;
}

TEST(Segmentation, RefusesOtherOutputs) {
  EXPECT_FALSE(best_classes(Tensor(DType::kF32, {1, 3, 8}), 3).ok());
  EXPECT_FALSE(best_classes(Tensor(DType::kF32, {2, 3, 8, 8}), 3).ok());
  EXPECT_FALSE(best_classes(Tensor(DType::kF32, {1, 1, 8, 8}), 0).ok());
  const auto got = best_classes(Tensor(DType::kF32, {1, 3, 8, 8}), 21);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().message(),
            "the output is f32[1,3,8,8], expected class scores of 21 classes, as many as there are "
            "labels");
}

TEST(Segmentation, FindsNoObjectInBackground) {
  const auto map = best_classes(Tensor(DType::kF32, {1, 3, 8, 8}), 3);
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(main_class(class_shares(*map, letterboxed(8, 8, 8))), std::nullopt);
}

TEST(Segmentation, ColoursAndCutsOut) {
  Image picture(2, 1, 3);
  picture.pixels = {100, 100, 100, 50, 60, 70};
  Image alpha(2, 1, 1);
  alpha.pixels = {255, 0};
  const Image laid = overlay(picture, alpha, 12);
  const auto color = class_color(12);
  EXPECT_EQ(color, (std::array<uint8_t, 3>{64, 0, 128}));  // VOC's dog
  EXPECT_EQ(laid.pixels, (std::vector<uint8_t>{82, 50, 114, 50, 60, 70}));
  EXPECT_EQ(cutout(picture, alpha).pixels,
            (std::vector<uint8_t>{100, 100, 100, 255, 50, 60, 70, 0}));
}

}  // namespace
}  // namespace downhaul

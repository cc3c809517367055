#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>

namespace downhaul {
namespace {

TEST(DType, HalfRoundTripsEveryBitPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(float_to_half(value), bits);
  }
}

TEST(DType, HalfRoundsToNearestEven) {
  EXPECT_EQ(float_to_half(65519.0f), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_half(0x1p-25f), 0);  // a tie with zero goes to even
  EXPECT_EQ(float_to_half(0x1.8p-25f), 1);
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3C00);
  EXPECT_EQ(float_to_bf16(1.0f + 0x1p-8f), 0x3F80);
  EXPECT_EQ(float_to_bf16(1.0f + 0x1.8p-8f), 0x3F81);
}

TEST(DType, PromotesAsTorchDoes) {
  EXPECT_EQ(promote(DType::kI32, DType::kI64), DType::kI64);
  EXPECT_EQ(promote(DType::kU8, DType::kI8), DType::kI16);
  EXPECT_EQ(promote(DType::kI64, DType::kF16), DType::kF16);
  EXPECT_EQ(promote(DType::kBF16, DType::kF16), DType::kF32);
  EXPECT_EQ(promote(DType::kBool, DType::kU8), DType::kU8);
}

TEST(Tensor, StridedViewsAreReadInLogicalOrder) {
  const Tensor base = Tensor::from<float>({6}, {0, 1, 2, 3, 4, 5});
  const Sizes sizes = {3, 2};
  const std::vector<int64_t> strides = {1, 3};
  const auto t = strided_tensor(DType::kF32, sizes, strides, 0, base.storage());
  ASSERT_TRUE(t.ok());
  const std::vector<float> got(t->data<float>(), t->data<float>() + 6);
  EXPECT_EQ(got, (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Tensor, ContiguousViewsShareTheirStorage) {
  const Tensor base = Tensor::from<float>({6}, {0, 1, 2, 3, 4, 5});
  const Sizes sizes = {2};
  const std::vector<int64_t> strides = {1};
  const auto t = strided_tensor(DType::kF32, sizes, strides, 4, base.storage());
  ASSERT_TRUE(t.ok());
  EXPECT_EQ(t->storage(), base.storage());
  EXPECT_EQ(t->at(1), 5);
}

TEST(Tensor, RefusesViewsOutsideTheStorage) {
  const Tensor base(DType::kF32, {4});
  const std::vector<int64_t> one = {1};
  EXPECT_FALSE(strided_tensor(DType::kF32, Sizes{5}, one, 0, base.storage()).ok());
  EXPECT_FALSE(strided_tensor(DType::kF32, Sizes{2}, one, 3, base.storage()).ok());
  EXPECT_FALSE(strided_tensor(DType::kF32, Sizes{2}, one, -1, base.storage()).ok());
  EXPECT_FALSE(strided_tensor(DType::kF32, Sizes{-1}, one, 0, base.storage()).ok());
  const Sizes huge = {int64_t{1} << 31, int64_t{1} << 31, 4};
  EXPECT_FALSE(
      strided_tensor(DType::kF32, huge, contiguous_strides(Sizes{1, 1, 1}), 0, base.storage())
          .ok());
}

TEST(Tensor, CastTruncatesTowardsZeroAndKeepsLargeIntegers) {
  EXPECT_EQ(Tensor::from<float>({2}, {-1.7f, 1.7f}).cast(DType::kI64).int_at(0), -1);
  const int64_t big = (int64_t{1} << 60) + 1;
  EXPECT_EQ(Tensor::from<int64_t>({1}, {big}).cast(DType::kI64).int_at(0), big);
  EXPECT_EQ(Tensor::from<float>({1}, {0.5f}).cast(DType::kBool).at(0), 1);
}

}  // namespace
}  // namespace downhaul

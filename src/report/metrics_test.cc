#include "report/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace downhaul {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Metrics, OfEqualTensors) {
  const Tensor a = Tensor::from<float>({2, 2}, {1, -2, 0, 4});
  const TensorMetrics m = compare_tensors(a, a);
  EXPECT_EQ(m.unequal, 0);
  EXPECT_EQ(m.max_abs, 0);
  EXPECT_EQ(m.relative, 0);
  EXPECT_TRUE(std::isinf(m.psnr));
  EXPECT_DOUBLE_EQ(m.cosine, 1);
  EXPECT_EQ(m.worst, -1);
  EXPECT_EQ(m.argmax->share(), 1);
}

TEST(Metrics, FollowTheirFormulas) {
  const Tensor a = Tensor::from<float>({4}, {0, 1, 2, -2});
  const Tensor b = Tensor::from<float>({4}, {0, 1.5, 2, -3});
  const TensorMetrics m = compare_tensors(a, b);
  EXPECT_EQ(m.unequal, 2);
  EXPECT_DOUBLE_EQ(m.max_abs, 1);
  EXPECT_DOUBLE_EQ(m.mean_abs, 1.5 / 4);
  EXPECT_DOUBLE_EQ(m.magnitude, 2);
  EXPECT_DOUBLE_EQ(m.relative, 0.5);
  EXPECT_DOUBLE_EQ(m.relative_l2, std::sqrt(1.25 / 9));
  // Range 4, mean square 1.25 / 4.
  EXPECT_DOUBLE_EQ(m.psnr, 10 * std::log10(16 / 0.3125));
  EXPECT_DOUBLE_EQ(m.cosine, (1.5 + 4 + 6) / (3 * std::sqrt(2.25 + 4 + 9)));
  EXPECT_EQ(m.worst, 3);
  EXPECT_EQ(m.worst_a, -2);
  EXPECT_EQ(m.worst_b, -3);
}

TEST(Metrics, NotANumberEqualsItselfOnly) {
  const Tensor a = Tensor::from<float>({4}, {kNan, kInf, -kInf, 1});
  EXPECT_EQ(compare_tensors(a, a).unequal, 0);
  EXPECT_EQ(compare_tensors(a, a).not_finite_a, 3);
  const Tensor b = Tensor::from<float>({4}, {kNan, -kInf, 7, 1.25});
  const TensorMetrics m = compare_tensors(a, b);
  EXPECT_EQ(m.not_finite_unequal, 2);
  EXPECT_EQ(m.not_finite_b, 2);
  EXPECT_EQ(m.unequal, 3);
  EXPECT_DOUBLE_EQ(m.max_abs, 0.25) << "finite pairs only";
  EXPECT_EQ(m.worst, 1) << "what is not finite comes before any finite difference";
}

TEST(Metrics, IntegersAreExactBeyondWhatDoublesTellApart) {
  const int64_t big = int64_t{1} << 53;
  const TensorMetrics m = compare_tensors(Tensor::from<int64_t>({2}, {big, 1}),
                                          Tensor::from<int64_t>({2}, {big + 1, 1}));
  EXPECT_EQ(m.unequal, 1);
  EXPECT_FALSE(m.argmax.has_value());
}

TEST(Metrics, AgreementIsAlongTheLastAxis) {
  const Tensor a = Tensor::from<float>({2, 3}, {1, 5, 2, 9, 0, 1});
  const Tensor b = Tensor::from<float>({2, 3}, {1, 5, 2, 0, 9, 1});
  const TensorMetrics m = compare_tensors(a, b);
  EXPECT_EQ(m.argmax->axis, 1);
  EXPECT_EQ(m.argmax->rows, 2);
  EXPECT_EQ(m.argmax->equal, 1);
  EXPECT_FALSE(m.overlap.has_value());
}

TEST(Metrics, ImagesAgreeAlongTheClassesAndOverlapAsMasks) {
  // Two classes on a picture of 1 x 4: masks 0 0 1 1 and 0 1 1 1.
  const Tensor a = Tensor::from<float>({1, 2, 1, 4}, {1, 1, 0, 0, 0, 0, 1, 1});
  const Tensor b = Tensor::from<float>({1, 2, 1, 4}, {1, 0, 0, 0, 0, 1, 1, 1});
  const TensorMetrics m = compare_tensors(a, b);
  EXPECT_EQ(m.argmax->axis, 1);
  EXPECT_EQ(m.argmax->equal, 3);
  EXPECT_EQ(m.argmax->rows, 4);
  EXPECT_EQ(m.overlap->classes, 2);
  EXPECT_DOUBLE_EQ(m.overlap->mean, (1.0 / 2 + 2.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(m.overlap->lowest, 0.5);
  const TensorMetrics labels = compare_tensors(Tensor::from<int64_t>({1, 1, 4}, {0, 0, 1, 1}),
                                               Tensor::from<int64_t>({1, 1, 4}, {0, 1, 1, 1}));
  EXPECT_DOUBLE_EQ(labels.overlap->mean, m.overlap->mean);
}

TEST(Metrics, NumbersThatMaskDoNotHideDifferences) {
  const Tensor a = Tensor::from<float>({4}, {2, -1, -1e30f, -1e4f});
  const Tensor b = Tensor::from<float>({4}, {2, -1.5, -1e30f, -1e4f + 1});
  const TensorMetrics m = compare_tensors(a, b);
  EXPECT_DOUBLE_EQ(m.scale, 2);
  EXPECT_DOUBLE_EQ(m.relative, 0.25);
}

TEST(Metrics, OfNothing) {
  const TensorMetrics m = compare_tensors(Tensor(DType::kF32, {0, 3}), Tensor(DType::kF32, {0, 3}));
  EXPECT_EQ(m.elements, 0);
  EXPECT_EQ(m.unequal, 0);
  EXPECT_FALSE(m.argmax.has_value());
}

TEST(Metrics, HalfPrecisionAgainstSingle) {
  const Tensor a = Tensor::from<float>({2}, {32767, 1});
  const TensorMetrics m = compare_tensors(a, a.cast(DType::kF16));
  EXPECT_EQ(m.max_abs, 1) << "32767 becomes 32768";
  EXPECT_EQ(m.unequal, 1);
}

}  // namespace
}  // namespace downhaul

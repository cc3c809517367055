#include "report/statistics.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace downhaul {
namespace {

TEST(Statistics, OfASeries) {
  std::vector<double> series(100);
  std::iota(series.rbegin(), series.rend(), 1.0);  // 100, 99, …, 1
  const TimeSummary s = summarise(series);
  EXPECT_DOUBLE_EQ(s.mean, 50.5);
  EXPECT_DOUBLE_EQ(s.median, 50.5);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 100);
  EXPECT_DOUBLE_EQ(s.p95, 95);
  EXPECT_DOUBLE_EQ(s.mad, 25);
  EXPECT_DOUBLE_EQ(summarise({3, 1, 2}).median, 2);
  EXPECT_DOUBLE_EQ(summarise({7}).p95, 7);
  EXPECT_DOUBLE_EQ(summarise({}).median, 0);
}

std::vector<double> noisy(double median, double spread, unsigned seed, size_t n = 50) {
  std::mt19937 random(seed);
  std::vector<double> out;
  for (size_t i = 0; i < n; ++i) {
    const double u = static_cast<double>(random()) / 4294967296.0;
    out.push_back(median * (1 + spread * (u - 0.5)));
  }
  return out;
}

TEST(Statistics, ADifferenceLargerThanTheNoiseIsSeen) {
  const RatioEstimate e = estimate_ratio(noisy(10, 0.04, 1), noisy(11, 0.04, 2));
  EXPECT_TRUE(e.beyond_noise);
  EXPECT_NEAR(e.ratio, 1.1, 0.02);
  EXPECT_LE(e.low, e.ratio);
  EXPECT_GE(e.high, e.ratio);
}

TEST(Statistics, ADifferenceInsideTheNoiseIsNot) {
  const RatioEstimate e = estimate_ratio(noisy(10, 0.4, 1, 20), noisy(10.2, 0.4, 2, 20));
  EXPECT_FALSE(e.beyond_noise) << e.low << " " << e.high;
}

TEST(Statistics, EqualSeriesAreRarelyCalledDifferent) {
  int called = 0;
  for (unsigned i = 0; i < 40; ++i) {
    called += estimate_ratio(noisy(10, 0.1, 2 * i + 1), noisy(10, 0.1, 2 * i + 2)).beyond_noise;
  }
  EXPECT_LE(called, 6);
}

TEST(Statistics, DriftIsNoise) {
  // Both rise by half in steps of ten values, as when a machine gets busier; the steps differ.
  std::vector<double> first, second;
  for (int i = 0; i < 50; ++i) {
    first.push_back(10 + (i / 10 % 2) * 5 + 0.01 * (i % 3));
    second.push_back(10 + ((i + 10) / 10 % 2) * 5 + 0.01 * (i % 3));
  }
  EXPECT_FALSE(estimate_ratio(first, second).beyond_noise);
}

TEST(Statistics, ADifferenceBelowOnePercentIsNotClaimed) {
  const std::vector<double> first(50, 10.0), second(50, 10.05);
  const RatioEstimate e = estimate_ratio(first, second);
  EXPECT_GT(e.low, 1);
  EXPECT_FALSE(e.beyond_noise);
}

}  // namespace
}  // namespace downhaul

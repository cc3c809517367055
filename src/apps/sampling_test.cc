#include "apps/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace downhaul {
namespace {

std::vector<int> counts(const SamplingOptions& options, const std::vector<float>& scores,
                        int draws) {
  auto sampler = Sampler::make(options);
  DH_CHECK(sampler.ok());
  std::vector<int> out(scores.size(), 0);
  for (int i = 0; i < draws; ++i) {
    const auto token = sampler->pick(scores);
    DH_CHECK(token.ok());
    ++out[static_cast<size_t>(*token)];
  }
  return out;
}

TEST(Sampling, GreedyTakesTheFirstOfTheLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  auto sampler = Sampler::make({});
  EXPECT_EQ(*sampler->pick(std::vector<float>{nan, 1, 3, 3, 2}), 2);
  EXPECT_FALSE(sampler->pick(std::vector<float>{nan, nan}).ok());
  EXPECT_FALSE(sampler->pick({}).ok());
}

TEST(Sampling, FrequenciesFollowTheTemperature) {
  // Odds 1 : 2 : 4 at temperature 2; 20000 draws, five standard deviations of at most 0.0036.
  const float two = std::log(2.0f);
  const std::vector<int> found = counts({.temperature = 2}, {0, 2 * two, 4 * two}, 20000);
  EXPECT_NEAR(found[0] / 20000.0, 1.0 / 7, 0.018);
  EXPECT_NEAR(found[1] / 20000.0, 2.0 / 7, 0.018);
  EXPECT_NEAR(found[2] / 20000.0, 4.0 / 7, 0.018);
}

TEST(Sampling, TopKAndTopPLeaveOutTheRest) {
  const std::vector<float> scores = {0, 3, 1, 2};
  std::vector<int> found = counts({.temperature = 5, .top_k = 2}, scores, 500);
  EXPECT_EQ(found[0] + found[2], 0);
  EXPECT_GT(found[3], 0);
  // Probabilities at temperature 1: 0.644 for token 1, 0.237 for token 3, 0.087 for token 2.
  found = counts({.temperature = 1, .top_p = 0.6}, scores, 200);
  EXPECT_EQ(found[1], 200);
  found = counts({.temperature = 1, .top_p = 0.7}, scores, 500);
  EXPECT_EQ(found[0] + found[2], 0);
  EXPECT_GT(found[3], 0);
}

TEST(Sampling, TheSeedDecides) {
  const std::vector<float> scores(50, 0.0f);
  const auto draw = [&](uint64_t seed) {
    auto sampler = Sampler::make({.temperature = 1, .seed = seed});
    std::vector<int64_t> out;
    for (int i = 0; i < 20; ++i) out.push_back(*sampler->pick(scores));
    return out;
  };
  EXPECT_EQ(draw(3), draw(3));
  EXPECT_NE(draw(3), draw(4));
}

TEST(Sampling, RefusesWhatMakesNoSense) {
  EXPECT_FALSE(Sampler::make({.temperature = -1}).ok());
  EXPECT_FALSE(Sampler::make({.temperature = NAN}).ok());
  EXPECT_FALSE(Sampler::make({.top_k = -1}).ok());
  EXPECT_FALSE(Sampler::make({.top_p = 0}).ok());
  EXPECT_FALSE(Sampler::make({.top_p = 1.5}).ok());
}

}  // namespace
}  // namespace downhaul

#include "apps/text_answers.h"

#include <gtest/gtest.h>

#include <cmath>

namespace downhaul {
namespace {

TEST(FindAnswers, KeepsToTheContextAndToTheLength) {
  //                         none  question  context
  const std::vector<float> start = {0, 9, 1, 3, 0};
  const std::vector<float> end = {0, 9, 4, 0, 3};
  const std::vector<uint8_t> allowed = {0, 0, 1, 1, 1};
  const Answers two = find_answers(start, end, allowed, 2, 3);
  ASSERT_EQ(two.spans.size(), 3u);
  // The end before the start, likeliest by itself, is no span.
  EXPECT_EQ(two.spans[0].first, 3u);
  EXPECT_EQ(two.spans[0].last, 4u);
  const double starts = 1 + std::exp(1) + std::exp(3) + 1;
  const double ends = 1 + std::exp(4) + 1 + std::exp(3);
  EXPECT_NEAR(two.spans[0].probability, std::exp(6) / (starts * ends), 1e-12);
  EXPECT_NEAR(two.no_answer, 1 / (starts * ends), 1e-12);
  for (const AnswerSpan& s : find_answers(start, end, allowed, 1, 9).spans) {
    EXPECT_EQ(s.first, s.last);
  }
}

TEST(MergeTags, BeginsAnewAtB) {
  const auto spans = merge_tags({"O", "B-PER", "I-PER", "B-PER", "O", "I-LOC", "I-PER", "I-PER"},
                                {1, 0.5, 0.7, 0.9, 1, 0.3, 0.2, 0.4}, {1, 0, 0, 0, 0, 0, 0, 0});
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[0].label, "PER");
  EXPECT_EQ(spans[0].first, 1u);
  EXPECT_EQ(spans[0].last, 2u);
  EXPECT_NEAR(spans[0].probability, 0.6, 1e-12);
  EXPECT_EQ(spans[1].first, 3u);
  EXPECT_EQ(spans[2].label, "LOC");
  EXPECT_NEAR(spans[3].probability, 0.3, 1e-12);
}

TEST(Embeddings, AreMeansOverTheTextAlone) {
  const std::vector<float> hidden = {1, 2, 3, 6, 100, 100};
  EXPECT_EQ(mean_rows(hidden, {1, 1, 0}), (std::vector<float>{2, 4}));
  EXPECT_NEAR(cosine(std::vector<float>{1, 0}, std::vector<float>{1, 1}), std::sqrt(0.5), 1e-12);
  EXPECT_EQ(cosine(std::vector<float>{0, 0}, std::vector<float>{1, 1}), 0);
}

}  // namespace
}  // namespace downhaul

#include "engine/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/strings.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

constexpr int64_t kVocabulary = 11, kDim = 8, kHeads = 2, kWidth = 4, kPositions = 70;

enum class Mask { kIsCausal, kCompared, kAdded, kSlopes, kWindow, kNone, kAhead };

struct Shape {
  Mask mask = Mask::kCompared;
  bool last_row_only = true;
  bool batch = false;  // open
  int layers = 2;
};

/// A small language model with weights drawn from a generator.
class Model {
 public:
  explicit Model(const Shape& shape) : b_(graph_, nullptr) {
    auto symbol = std::make_shared<Symbol>();
    symbol->name = "s";
    symbol->min = 2;
    symbol->max = kPositions;
    s_ = Dim(symbol);
    Dim batch(1);
    if (shape.batch) {
      auto other = std::make_shared<Symbol>();
      other->name = "b";
      other->min = 1;
      other->max = 4;
      batch = Dim(other);
    }
    Value* ids = graph_.add_input("ids", {DType::kI64, {batch, s_}});
    Value* x = b_.op(ops::kEmbedding, {weight({kVocabulary, kDim}), ids});
    Value* table = b_.op(ops::kSlice, {weight({kPositions, kDim})},
                         {{"dim", int64_t{0}}, {"start", Dim(0)}, {"end", s_}});
    x = b_.op(ops::kAdd, {x, table});
    Value* mask = make_mask(shape.mask);
    for (int l = 0; l < shape.layers; ++l) {
      Value* heads[3];
      for (Value*& h : heads) {
        h = b_.op(ops::kReshape, {linear(x, kDim)},
                  {{"shape", Dims{batch, s_, Dim(kHeads), Dim(kWidth)}}});
        h = b_.op(ops::kPermute, {h}, {{"dims", Ints{0, 2, 1, 3}}});
      }
      Value* y = b_.op(ops::kAttention, {heads[0], heads[1], heads[2], mask},
                       {{"is_causal", shape.mask == Mask::kIsCausal}}, cat("attention_", l));
      y = b_.op(ops::kPermute, {y}, {{"dims", Ints{0, 2, 1, 3}}});
      y = b_.op(ops::kReshape, {y}, {{"shape", Dims{batch, s_, Dim(kDim)}}});
      x = b_.op(ops::kAdd, {x, linear(y, kDim)});
      x = b_.op(ops::kAdd, {x, b_.op(ops::kTanh, {linear(x, kDim)})});
    }
    Value* scores = linear(x, kVocabulary);
    if (shape.last_row_only) {
      scores =
          b_.op(ops::kSlice, {scores}, {{"dim", int64_t{1}}, {"start", s_ - Dim(1)}, {"end", s_}});
    }
    DH_CHECK(b_.status().ok());
    graph_.add_output(scores, "scores");
  }

  Graph& graph() { return graph_; }
  Builder& builder() { return b_; }
  const Dim& length() const { return s_; }

 private:
  Value* weight(const Sizes& sizes) {
    Tensor t(DType::kF32, sizes);
    std::uniform_real_distribution<float> draw(-0.6f, 0.6f);
    for (int64_t i = 0; i < t.num_elements(); ++i) t.mutable_data<float>()[i] = draw(random_);
    return b_.constant(t);
  }
  Value* linear(Value* x, int64_t to) {
    return b_.op(ops::kLinear, {x, weight({to, kDim}), weight({to})});
  }
  Value* make_mask(Mask mask) {
    if (mask == Mask::kIsCausal || mask == Mask::kNone) return nullptr;
    if (mask == Mask::kSlopes) {
      // A penalty that grows with the distance, another for each head.
      Tensor t(DType::kF32, {1, kHeads, kPositions, kPositions});
      for (int64_t i = 0; i < t.num_elements(); ++i) {
        const int64_t k = i % kPositions, q = i / kPositions % kPositions;
        const float slope = i < kPositions * kPositions ? 0.1f : 0.4f;
        t.mutable_data<float>()[i] = k > q ? -INFINITY : -slope * static_cast<float>(q - k);
      }
      Value* v = b_.op(ops::kSlice, {b_.constant(t)},
                       {{"dim", int64_t{2}}, {"start", Dim(0)}, {"end", s_}});
      return b_.op(ops::kSlice, {v}, {{"dim", int64_t{3}}, {"start", Dim(0)}, {"end", s_}});
    }
    Value* places = b_.op(ops::kArange, {}, {{"start", Dim(0)}, {"end", s_}});
    Value* query = b_.op(ops::kReshape, {places}, {{"shape", Dims{1, 1, s_, 1}}});
    Value* key = b_.op(ops::kReshape, {places}, {{"shape", Dims{1, 1, 1, s_}}});
    Value* limit = query;
    if (mask == Mask::kAhead) limit = b_.op(ops::kAdd, {query, b_.scalar(DType::kI64, 1)});
    Value* open = b_.op(ops::kLe, {key, limit});
    if (mask == Mask::kWindow) {
      Value* near = b_.op(ops::kGt, {b_.op(ops::kAdd, {key, b_.scalar(DType::kI64, 3)}), query});
      open = b_.op(ops::kLogicalAnd, {open, near});
    }
    if (mask == Mask::kAdded) {
      return b_.op(ops::kWhere,
                   {open, b_.scalar(DType::kF32, 0), b_.scalar(DType::kF32, -3.4028235e38)});
    }
    return open;
  }

  std::mt19937 random_{7};
  Graph graph_;
  Builder b_;
  Dim s_;
};

std::vector<int64_t> some_tokens(int64_t count) {
  std::mt19937 random(11);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(kVocabulary)));
  }
  return out;
}

/// Scores after the first `length` tokens by the reference kernels.
std::vector<float> expected_scores(const Graph& graph, const std::vector<int64_t>& tokens,
                                   int64_t length) {
  Tensor ids(DType::kI64, {1, length});
  for (int64_t i = 0; i < length; ++i) ids.set_int(i, tokens[static_cast<size_t>(i)]);
  const auto outputs = evaluate(graph, {ids});
  DH_CHECK(outputs.ok());
  const Tensor& scores = (*outputs)[0];
  const float* end = scores.data<float>() + scores.num_elements();
  return {end - kVocabulary, end};
}

/// Sums of at most 70 products of numbers around 1, through 2 layers that do not amplify.
constexpr float kTolerance = 1e-5f;

void expect_scores(std::span<const float> found, const std::vector<float>& expected,
                   const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], kTolerance) << what << ", token " << i;
  }
}

std::unique_ptr<Decoder> make(const Graph& graph, DecoderOptions options = {}) {
  auto decoder = Decoder::make(graph, options);
  EXPECT_TRUE(decoder.ok()) << decoder.status().message();
  return decoder.ok() ? *std::move(decoder) : nullptr;
}

const std::vector<std::vector<int64_t>> kSplits = {
    {70},
    {1, 1, 1, 1, 1, 1, 1, 1},
    {5, 1, 1, 9, 1, 30, 1, 1, 1, 20},  // crosses the first capacity
    {63, 1, 1, 1},
    {2, 62, 6},
};

TEST(Decoder, GivesTheScoresOfTheWholeSequenceHoweverItIsSplit) {
  for (const Mask mask :
       {Mask::kIsCausal, Mask::kCompared, Mask::kAdded, Mask::kSlopes, Mask::kWindow}) {
    for (const bool last_row_only : {true, false}) {
      Model model({.mask = mask, .last_row_only = last_row_only, .batch = last_row_only});
      const std::vector<int64_t> tokens = some_tokens(kPositions);
      for (const auto& split : kSplits) {
        auto decoder = make(model.graph());
        ASSERT_NE(decoder, nullptr);
        ASSERT_EQ(decoder->whole_sequence_reason(), "");
        for (const int64_t count : split) {
          const auto scores = decoder->append(std::span(tokens).subspan(
              static_cast<size_t>(decoder->length()), static_cast<size_t>(count)));
          ASSERT_TRUE(scores.ok()) << scores.status().message();
          if (decoder->length() < 2) continue;  // the source takes two or more
          expect_scores(*scores, expected_scores(model.graph(), tokens, decoder->length()),
                        cat("mask ", static_cast<int>(mask), ", ", decoder->length(), " tokens"));
        }
      }
    }
  }
}

TEST(Decoder, ThreadsDoNotChangeABit) {
  Model model({});
  const std::vector<int64_t> tokens = some_tokens(40);
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    auto decoder = make(model.graph(), {.engine = {.num_threads = threads}});
    std::vector<float> all;
    for (size_t at = 0; at < tokens.size(); at += 8) {
      const auto scores = decoder->append(std::span(tokens).subspan(at, 8));
      ASSERT_TRUE(scores.ok());
      all.insert(all.end(), scores->begin(), scores->end());
    }
    if (first.empty()) first = all;
    EXPECT_EQ(all, first) << threads;
  }
}

TEST(Decoder, ReferenceKernelsAgree) {
  Model model({.mask = Mask::kSlopes});
  const std::vector<int64_t> tokens = some_tokens(9);
  auto decoder = make(model.graph(), {.engine = {.reference_only = true}});
  for (size_t at = 0; at < tokens.size(); at += 3) {
    const auto scores = decoder->append(std::span(tokens).subspan(at, 3));
    ASSERT_TRUE(scores.ok()) << scores.status().message();
    expect_scores(*scores, expected_scores(model.graph(), tokens, decoder->length()), "reference");
  }
}

TEST(Decoder, BeginsAnew) {
  Model model({});
  const std::vector<int64_t> tokens = some_tokens(20);
  auto decoder = make(model.graph());
  ASSERT_TRUE(decoder->append(tokens).ok());
  decoder->clear();
  const auto scores = decoder->append(std::span(tokens).subspan(0, 3));
  ASSERT_TRUE(scores.ok());
  expect_scores(*scores, expected_scores(model.graph(), tokens, 3), "after clear");
}

TEST(Decoder, RefusesWhatDoesNotFitAndGoesOn) {
  Model model({});
  const std::vector<int64_t> tokens = some_tokens(kPositions);
  auto decoder = make(model.graph());
  ASSERT_TRUE(decoder->append(std::span(tokens).subspan(0, 4)).ok());
  const std::vector<int64_t> wrong = {3, kVocabulary};
  EXPECT_FALSE(decoder->append(wrong).ok());
  EXPECT_FALSE(decoder->append({}).ok());
  const auto too_many = decoder->append(tokens);
  EXPECT_EQ(too_many.status().message(), "the model takes at most 70 tokens, found 74");
  EXPECT_EQ(decoder->length(), 4);
  const auto scores = decoder->append(std::span(tokens).subspan(4, 2));
  ASSERT_TRUE(scores.ok());
  expect_scores(*scores, expected_scores(model.graph(), tokens, 6), "after refusals");
}

/// Falls back to whole sequences, says why, and is still right.
void expect_whole(Model& model, const std::string& reason) {
  const std::vector<int64_t> tokens = some_tokens(8);
  auto decoder = make(model.graph());
  ASSERT_NE(decoder, nullptr);
  EXPECT_NE(decoder->whole_sequence_reason().find(reason), std::string::npos)
      << decoder->whole_sequence_reason();
  for (size_t at = 0; at < tokens.size(); at += 4) {
    const auto scores = decoder->append(std::span(tokens).subspan(at, 4));
    ASSERT_TRUE(scores.ok()) << scores.status().message();
    expect_scores(*scores, expected_scores(model.graph(), tokens, decoder->length()), reason);
  }
}

TEST(Decoder, NamesTheNodeThatLooksAhead) {
  Model open({.mask = Mask::kNone});
  expect_whole(open, "attention_0 (attention): attends to later tokens");
  Model ahead({.mask = Mask::kAhead});
  expect_whole(ahead, "attention_0 (attention): attends to later tokens");
}

TEST(Decoder, NamesTheNodeThatMixesTokens) {
  Model model({.last_row_only = false});
  Value* scores = model.graph().outputs()[0].value;
  Value* mean =
      model.builder().op(ops::kMean, {scores}, {{"dims", Ints{1}}, {"keepdim", true}}, "middle");
  Value* both = model.builder().op(ops::kAdd, {scores, mean});
  model.graph().set_output(0, both);
  expect_whole(model, "middle (mean): mixes the tokens of ");
}

TEST(Decoder, WholeSequencesWhenAskedFor) {
  Model model({});
  auto decoder = make(model.graph(), {.whole_sequence = true});
  EXPECT_EQ(decoder->whole_sequence_reason(), "asked for");
  const std::vector<int64_t> tokens = some_tokens(6);
  const auto scores = decoder->append(tokens);
  ASSERT_TRUE(scores.ok());
  expect_scores(*scores, expected_scores(model.graph(), tokens, 6), "whole");
}

TEST(Decoder, RefusesModelsThatAreNone) {
  Graph fixed;
  fixed.add_output(fixed.add_input("ids", {DType::kI64, {1, 16}}), "y");
  EXPECT_EQ(Decoder::make(fixed, {}).status().message(),
            "input ids: i64[1,16]; its length is fixed");
  Graph photo;
  photo.add_output(photo.add_input("x", {DType::kF32, {1, 3, 8, 8}}), "y");
  EXPECT_EQ(Decoder::make(photo, {}).status().message(),
            "input x: f32[1,3,8,8]; expected token ids [1, length]");
}

}  // namespace
}  // namespace downhaul

#include "report/masked_rows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/strings.h"
#include "engine/engine.h"
#include "ir/text.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

std::unique_ptr<Graph> parse(std::string_view text) {
  auto graph = parse_graph(text, find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? *std::move(graph) : nullptr;
}

// Two queries of one head on two keys whose scores are 2 and 3; v = [[1, 2], [3, 4]]. The first
// query may attend to both keys; of the second the mask hides both.
const std::vector<Tensor>& qkv() {
  static const std::vector<Tensor> inputs = {Tensor::from<float>({1, 1, 2, 2}, {1, 0, 1, 0}),
                                             Tensor::from<float>({1, 1, 2, 2}, {2, 0, 3, 0}),
                                             Tensor::from<float>({1, 1, 2, 2}, {1, 2, 3, 4})};
  return inputs;
}
const float kLow = 1 / (1 + std::exp(1.0f));  // 0.2689, softmax of [2, 3]

constexpr const char* kAttention = R"(graph g {
  input %q: f32[1,1,2,2]
  input %k: f32[1,1,2,2]
  input %v: f32[1,1,2,2]
  const %m: bool[1,1,2,2] = [1, 1, 0, 0]
  %y = attention(%q, %k, %v, %m, scale=1)
  return %y
})";

std::string plain(std::string_view masked) {
  return cat(R"(graph g {
    input %q: f32[1,1,2,2]
    input %k: f32[1,1,2,2]
    input %v: f32[1,1,2,2]
    const %m: f32[1,1,2,2] = [0, 0, )",
             masked, ", ", masked, R"(]
    %s = matmul(%q, %k, transpose_other=true)
    %a = add(%s, %m)
    %p = softmax(%a, dim=-1)
    %y = matmul(%p, %v)
    return %y
  })");
}

/// By both kinds of kernels.
std::vector<Tensor> results_of(const Graph& graph) {
  std::vector<Tensor> out;
  auto reference = evaluate(graph, qkv());
  EXPECT_TRUE(reference.ok()) << reference.status().message();
  if (reference.ok()) out.push_back((*reference)[0]);
  auto model = EngineModel::prepare(graph);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return out;
  Session session(*model);
  auto fast = session.run(qkv());
  EXPECT_TRUE(fast.ok()) << fast.status().message();
  if (fast.ok()) out.push_back((*fast)[0]);
  return out;
}

void expect_first_row(const Tensor& y) {
  EXPECT_NEAR(y.at(0), kLow * 1 + (1 - kLow) * 3, 1e-6);
  EXPECT_NEAR(y.at(1), kLow * 2 + (1 - kLow) * 4, 1e-6);
}

std::vector<MaskedRows> masked_rows(const Graph& graph) {
  auto found = find_masked_rows(graph, qkv());
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? *std::move(found) : std::vector<MaskedRows>{};
}

TEST(MaskedRows, OfABooleanMaskGiveZeros) {
  const auto graph = parse(kAttention);
  const auto results = results_of(*graph);
  ASSERT_EQ(results.size(), 2u);
  for (const Tensor& y : results) {
    expect_first_row(y);
    EXPECT_EQ(y.at(2), 0);
    EXPECT_EQ(y.at(3), 0);
  }
  const auto found = masked_rows(*graph);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].effect, MaskedRows::Effect::kZeros);
  EXPECT_EQ(print(found[0]),
            "attention y: in 1 of 2 rows every key is masked out; their result is 0");
}

TEST(MaskedRows, OfAFiniteMaskAreAnOrdinarySoftmax) {
  const auto graph = parse(plain("-10000"));
  const auto results = results_of(*graph);
  ASSERT_EQ(results.size(), 2u);
  for (const Tensor& y : results) {
    expect_first_row(y);
    // -9998 and -9997 are exact in f32: weights 0.2689 and 0.7311.
    EXPECT_NEAR(y.at(2), kLow * 1 + (1 - kLow) * 3, 1e-5);
    EXPECT_NEAR(y.at(3), kLow * 2 + (1 - kLow) * 4, 1e-5);
  }
  const auto found = masked_rows(*graph);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].effect, MaskedRows::Effect::kIgnored);
  EXPECT_EQ(found[0].rows, 1);
}

TEST(MaskedRows, OfMinusInfinityInAPlainSoftmaxAreNanAndNoOtherRowIs) {
  const auto graph = parse(plain("-inf"));
  const auto results = results_of(*graph);
  ASSERT_EQ(results.size(), 2u);
  for (const Tensor& y : results) {
    expect_first_row(y);
    EXPECT_TRUE(std::isnan(y.at(2)));
    EXPECT_TRUE(std::isnan(y.at(3)));
  }
  const auto found = masked_rows(*graph);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].effect, MaskedRows::Effect::kNan);
}

TEST(MaskedRows, AreFoundWhereAMaskChoosesAFilling) {
  const auto graph = parse(R"(graph g {
    input %q: f32[1,1,2,2]
    input %k: f32[1,1,2,2]
    input %v: f32[1,1,2,2]
    const %m: bool[1,1,2,2] = [1, 0, 0, 0]
    const %low: f32[] = [-inf]
    %s = matmul(%q, %k, transpose_other=true)
    %a = where(%m, %s, %low)
    %p = softmax(%a, dim=-1)
    %y = matmul(%p, %v)
    return %y
  })");
  const auto found = masked_rows(*graph);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].effect, MaskedRows::Effect::kNan);
  EXPECT_EQ(found[0].rows, 1);
}

TEST(MaskedRows, AreNotFoundWhereAKeyIsLeft) {
  const auto graph = parse(plain("-1"));
  EXPECT_TRUE(masked_rows(*graph).empty());
}

}  // namespace
}  // namespace downhaul

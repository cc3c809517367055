#include "report/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/strings.h"
#include "ir/text.h"
#include "ops/ops.h"
#include "report/artifact.h"
#include "report/rounding.h"

namespace downhaul {
namespace {

std::unique_ptr<Graph> parse(std::string_view text) {
  auto graph = parse_graph(text, find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? *std::move(graph) : nullptr;
}

Divergence diverge(const Graph& a, const Graph& b) {
  const std::vector<Tensor> inputs = random_inputs(a, 1);
  DivergenceQuery query{.a = &a, .b = &b, .inputs_a = &inputs, .inputs_b = &inputs};
  for (size_t i = 0; i < a.outputs().size(); ++i) query.outputs.emplace_back(i, i);
  auto found = find_divergence(query);
  EXPECT_TRUE(found.ok()) << found.status().message();
  return found.ok() ? *std::move(found) : Divergence{};
}

std::string mlp(std::string_view middle_bias) {
  return std::string(R"(graph g {
    input %x: f32[4,8]
    const %w1: f32[8,8] = random 1
    const %b1: f32[8] = random 2
    const %w2: f32[8,8] = random 3
    const %b2: f32[8] = )") +
         std::string(middle_bias) + R"(
    const %w3: f32[8,8] = random 5
    const %b3: f32[8] = random 6
    const %gamma: f32[8] = random 7
    const %beta: f32[8] = random 8
    %h1 = linear(%x, %w1, %b1)
    %n1 = layer_norm(%h1, %gamma, %beta, normalized_shape=[8])
    %h2 = linear(%n1, %w2, %b2)
    %g2 = gelu(%h2)
    %h3 = linear(%g2, %w3, %b3)
    return %h3
  })";
}

TEST(Divergence, IsWhereABiasWasChanged) {
  const auto a = parse(mlp("[0, 0, 0, 0, 0, 0, 0, 0]"));
  const auto b = parse(mlp("[0, 0, 0, 0.25, 0, 0, 0, 0]"));
  const Divergence d = diverge(*a, *b);
  ASSERT_TRUE(d.found());
  EXPECT_EQ(d.a->name, "h2");
  EXPECT_EQ(d.b->name, "h2");
  EXPECT_EQ(d.b->op, "linear");
  ASSERT_EQ(d.weights.size(), 1u);
  EXPECT_EQ(d.weights[0], "bias: 1 of 8 elements differ, by at most 0.25");
  EXPECT_NEAR(*d.difference, 0.25, 1e-5);
  EXPECT_EQ(d.by_name, 0);
  EXPECT_EQ(d.by_value, 2) << d.method();
}

TEST(Divergence, IsNotWhereTheSameIsSaidInOtherSteps) {
  // The norm in pieces, which no rewrite puts together (its mean is spelled as sum times 1/8).
  const auto a = parse(mlp("[0, 0, 0, 0, 0, 0, 0, 0]"));
  const auto b = parse(R"(graph g {
    input %x: f32[4,8]
    const %w1: f32[8,8] = random 1
    const %b1: f32[8] = random 2
    const %w2: f32[8,8] = random 3
    const %b2: f32[8] = [0, 0, 0, 0, 0, 0.5, 0, 0]
    const %w3: f32[8,8] = random 5
    const %b3: f32[8] = random 6
    const %gamma: f32[8] = random 7
    const %beta: f32[8] = random 8
    const %eighth: f32[] = [0.125]
    const %eps: f32[] = [1e-05]
    %h1 = linear(%x, %w1, %b1)
    %s1 = sum(%h1, dims=[1], keepdim=true)
    %m1 = mul(%s1, %eighth)
    %c1 = sub(%h1, %m1)
    %q1 = mul(%c1, %c1)
    %v1 = sum(%q1, dims=[1], keepdim=true)
    %v2 = mul(%v1, %eighth)
    %v3 = add(%v2, %eps)
    %r1 = rsqrt(%v3)
    %z1 = mul(%c1, %r1)
    %z2 = mul(%z1, %gamma)
    %n1 = add(%z2, %beta)
    %h2 = linear(%n1, %w2, %b2)
    %g2 = gelu(%h2)
    %h3 = linear(%g2, %w3, %b3)
    return %h3
  })");
  const Divergence d = diverge(*a, *b);
  ASSERT_TRUE(d.found());
  EXPECT_EQ(d.b->name, "h2");
  EXPECT_EQ(d.a->name, "h2");
}

TEST(Divergence, FollowsTheNamesOfNodes) {
  // Both branches give equal numbers in a; only names tell which one changed in b.
  const auto text = [](std::string_view second) {
    return cat(R"(graph g {
      input %x: f32[8]
      const %one: f32[8] = splat 1
      const %two: f32[8] = random )",
               second, R"(
      %p = sin(%x)
      %q = cos(%x)
      %u = mul(%p, %one)
      %v = mul(%q, %two)
      %y = concat(%u, %v, dim=0)
      return %y
    })");
  };
  const auto a = parse(text("4"));
  const auto b = parse(text("5"));
  for (Graph* graph : {a.get(), b.get()}) {
    for (const auto& node : graph->nodes()) {
      graph->origins.push_back({node->result()->name(), ""});
      node->add_origins({static_cast<int>(graph->origins.size()) - 1});
    }
  }
  const Divergence d = diverge(*a, *b);
  ASSERT_TRUE(d.found());
  EXPECT_EQ(d.b->origin, "v");
  EXPECT_GT(d.by_name, 0);
  EXPECT_EQ(d.by_value, 0);
}

TEST(Divergence, OfWhatIsNotANumber) {
  const auto text = [](std::string_view op) {
    return cat(R"(graph g {
      input %x: f32[16]
      %p = abs(%x)
      %q = )",
               op, R"((%p)
      %y = neg(%q)
      return %y
    })");
  };
  const auto a = parse(text("sqrt"));
  const auto b = parse(cat(R"(graph g {
      input %x: f32[16]
      %p = abs(%x)
      %n = neg(%p)
      %q = sqrt(%n)
      %y = neg(%q)
      return %y
    })"));
  const Divergence d = diverge(*a, *b);
  ASSERT_TRUE(d.found());
  EXPECT_EQ(d.a->op, "sqrt");
}

TEST(Divergence, DoesNotExistBetweenEqualGraphs) {
  const auto a = parse(mlp("random 9"));
  const Divergence d = diverge(*a, *a);
  EXPECT_FALSE(d.found());
  EXPECT_FALSE(d.outputs_differ);
}

TEST(Divergence, ValuesAgreeInAnyOrderOfDimensions) {
  Tensor nchw(DType::kF32, {1, 2, 3, 4});
  for (int64_t i = 0; i < 24; ++i) nchw.set(i, static_cast<double>(i));
  Tensor nhwc(DType::kF32, {1, 3, 4, 2});
  for (int64_t c = 0; c < 2; ++c) {
    for (int64_t hw = 0; hw < 12; ++hw) nhwc.set(hw * 2 + c, nchw.at(c * 12 + hw));
  }
  EXPECT_TRUE(agree_in_some_order(nchw, nhwc, 0));
  EXPECT_TRUE(agree_in_some_order(nhwc, nchw, 0));
  Tensor changed(DType::kF32, {1, 3, 4, 2});
  for (int64_t i = 0; i < 24; ++i) changed.set(i, nhwc.at(i));
  changed.set(23, 22.5);
  EXPECT_FALSE(agree_in_some_order(nchw, changed, 0.25));
  EXPECT_TRUE(agree_in_some_order(nchw, changed, 0.5));
  EXPECT_FALSE(agree_in_some_order(nchw, Tensor(DType::kF32, {23}), 100));
}

TEST(Rounding, CountsTheLongestPath) {
  const auto graph = parse(R"(graph g {
    input %x: f32[4,8]
    const %w: f32[16,8] = random 1
    const %v: f32[2,16] = random 2
    %t = permute(%x, dims=[1, 0])
    %h = linear(%x, %w)
    %g = gelu(%h)
    %y = linear(%g, %v)
    return %y, %t
  })");
  const Rounding rounding(*graph);
  EXPECT_EQ(rounding.terms(graph->find_value("t")), 0);
  EXPECT_EQ(rounding.terms(graph->find_value("h")), 8);
  EXPECT_EQ(rounding.terms(graph->find_value("y")), 8 + 1 + 16);
  EXPECT_DOUBLE_EQ(rounding.tolerance(graph->find_value("y")), 16 * 0x1p-24 * 5);
  EXPECT_DOUBLE_EQ(rounding.tolerance(graph->find_value("y"), 0x1p-11), 16 * 0x1p-11 * 5);
}

TEST(Rounding, TakesTheCoarsestType) {
  const auto graph = parse(R"(graph g {
    input %x: f32[4]
    %h = cast(%x, dtype=f16)
    %y = cast(%h, dtype=f32)
    return %y
  })");
  const Rounding rounding(*graph);
  EXPECT_EQ(rounding.coarsest(), DType::kF16);
  EXPECT_EQ(rounding.terms(graph->find_value("y")), 1);
  EXPECT_EQ(rounding.unit(), 0x1p-11);
}

}  // namespace
}  // namespace downhaul

#include "report/comparison.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "ir/text.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

Artifact artifact(std::string path, std::string_view text) {
  auto graph = parse_graph(text, find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  Artifact out;
  out.path = std::move(path);
  if (graph.ok()) out.graph = *std::move(graph);
  return out;
}

Comparison compare(const Artifact& a, const Artifact& b, const CompareOptions& options = {}) {
  auto result = compare_artifacts(a, b, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *std::move(result) : Comparison{};
}

// Rows 0, 32767, 32768, 40000, 50256 of a table whose row i is i.
std::string table(std::string_view dtype) {
  return cat(R"(graph g {
    input %ids: i64[1,5]
    const %t: )",
             dtype, R"([5,1] = [0, 32767, 32768, 40000, 50256]
    %e = embedding(%t, %ids)
    %y = cast(%e, dtype=f32)
    return %y
  })");
}

TEST(Comparison, WhatHalfPrecisionCannotHoldIsCalledRounding) {
  const Artifact a = artifact("a.pt2", table("f32"));
  const Artifact b = artifact("half.pte", table("f16"));
  const Comparison c = compare(a, b);
  EXPECT_EQ(c.verdict, Verdict::kRounding);
  const OutputComparison& o = c.sets[1].outputs[0];  // the structured ids are 0, 1, 2, 3, 4
  EXPECT_EQ(o.metrics.max_abs, 16) << "50256 is kept as 50272";
  EXPECT_EQ(o.why, "f16 rounding in half.pte");
  EXPECT_EQ(compare(a, a).verdict, Verdict::kEqual);
}

TEST(Comparison, AWrongRowIsMoreThanRounding) {
  const Artifact a = artifact("a.pt2", table("f32"));
  const Artifact b = artifact("b.pte", R"(graph g {
    input %ids: i64[1,5]
    const %t: f16[5,1] = [0, 32767, 40000, 32768, 50256]
    %e = embedding(%t, %ids)
    %y = cast(%e, dtype=f32)
    return %y
  })");
  const Comparison c = compare(a, b);
  EXPECT_EQ(c.verdict, Verdict::kDifferent);
  ASSERT_TRUE(c.divergence.has_value());
  ASSERT_TRUE(c.divergence->b.has_value());
  EXPECT_EQ(c.divergence->b->op, "embedding");
}

TEST(Comparison, IntegersMustBeEqual) {
  const auto text = [](int add) {
    return cat(R"(graph g {
      input %x: i64[4]
      const %c: i64[] = [)",
               add, R"(]
      %y = add(%x, %c)
      return %y
    })");
  };
  const Artifact a = artifact("a", text(1000000)), b = artifact("b", text(1000001));
  EXPECT_EQ(compare(a, b).verdict, Verdict::kDifferent);
  EXPECT_EQ(compare(a, a).verdict, Verdict::kEqual);
  CompareOptions wide;
  wide.tolerance = 0.5;
  EXPECT_EQ(compare(a, b, wide).verdict, Verdict::kDifferent) << "whatever is asked for";
}

constexpr const char* kTwoInputs = R"(graph g {
  input %p: f32[2,3]
  input %q: f32[2,3]
  %y = sub(%p, %q)
  return %y as "y"
})";

TEST(Comparison, MatchesInputsByNameOrElseByPosition) {
  const Artifact a = artifact("a", kTwoInputs);
  const Artifact swapped = artifact("b", R"(graph g {
    input %q: f32[2,3]
    input %p: f32[2,3]
    %y = sub(%p, %q)
    return %y as "y"
  })");
  const Comparison by_name = compare(a, swapped);
  EXPECT_EQ(by_name.verdict, Verdict::kEqual);
  EXPECT_EQ(by_name.inputs_matched, "by name");
  const Artifact nameless = artifact("c", R"(graph g {
    input %input_0: f32[2,3]
    input %input_1: f32[2,3]
    %y = sub(%input_0, %input_1)
    return %y as "output_0"
  })");
  const Comparison by_position = compare(a, nameless);
  EXPECT_EQ(by_position.verdict, Verdict::kEqual);
  EXPECT_EQ(by_position.inputs_matched, "by position");
  EXPECT_EQ(by_position.outputs_matched, "by position");
}

TEST(Comparison, OfOutputsWithOtherShapesIsADifference) {
  const Artifact a = artifact("a", kTwoInputs);
  const Artifact b = artifact("b", R"(graph g {
    input %p: f32[2,3]
    input %q: f32[2,3]
    %s = sub(%p, %q)
    %y = reshape(%s, shape=[3, 2])
    return %y as "y"
  })");
  CompareOptions options;
  options.find_operator = false;
  const Comparison c = compare(a, b, options);
  EXPECT_EQ(c.verdict, Verdict::kDifferent);
  EXPECT_EQ(c.sets[0].outputs[0].why, "the types differ");
}

TEST(Comparison, RefusesFilesThatDoNotFit) {
  const Artifact a = artifact("a", kTwoInputs);
  const Artifact one =
      artifact("b", "graph g {\n input %p: f32[2,3]\n %y = neg(%p)\n return %y\n}");
  const auto refused = compare_artifacts(a, one, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(), "'b' takes 1 inputs, 'a' takes 2");
}

TEST(Comparison, TheReportStatesTheFormulasAndTheResult) {
  const Artifact a = artifact("a", kTwoInputs);
  const std::string text = print(compare(a, a));
  for (const char* part : {"PSNR = ", "relative = ", "tolerance 16·u·sqrt(N)", "engine, ",
                           "inputs: random, seed 1", "inputs: structured", "bit for bit"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

}  // namespace
}  // namespace downhaul

#include "rewrite/rewrite.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

std::unique_ptr<Graph> parse(std::string_view body) {
  auto graph = parse_graph("graph test {\n" + std::string(body) + "}\n", find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return *std::move(graph);
}

Node& node_of(const Graph& graph, std::string_view name) {
  Value* value = graph.find_value(name);
  EXPECT_NE(value, nullptr) << name;
  return *value->producer();
}

/// True when `pattern` matches with the producer of %y as root.
bool matches_text(const char* pattern, const Graph& graph, Match* match = nullptr) {
  // Patterns are kept by the address of their rewrite.
  static std::vector<std::unique_ptr<Rewrite>> kept;
  kept.push_back(std::make_unique<Rewrite>(Rewrite{.name = "test", .match = pattern}));
  return matches(*kept.back(), node_of(graph, "y"), match);
}

constexpr std::string_view kHalfGelu = R"(
  input %x: f32[4]
  input %z: f32[4]
  const %half: f32[] = [0.5]
  %h = mul(%x, %half)
  %t = tanh(%x)
  %y = mul(%t, %h)
  return %y
)";

TEST(Pattern, TriesBothOrdersOfCommutativeOperators) {
  const auto graph = parse(kHalfGelu);
  const char* pattern = R"(
    %h = mul(0.5, %x)
    %t = tanh(%x)
    %y = mul(%h, %t)
  )";
  Match match;
  ASSERT_TRUE(matches_text(pattern, *graph, &match));
  EXPECT_EQ(match.value("x"), graph->find_value("x"));
  EXPECT_EQ(match.node("t"), &node_of(*graph, "t"));
  EXPECT_EQ(match.nodes().size(), 3u);
}

TEST(Pattern, TakesTheSameNameForTheSameValueOnly) {
  const auto graph = parse(R"(
    input %x: f32[4]
    input %z: f32[4]
    %t = tanh(%z)
    %y = mul(%t, %x)
    return %y
  )");
  EXPECT_TRUE(matches_text("%t = tanh(%a)\n%y = mul(%t, %b)", *graph));
  EXPECT_FALSE(matches_text("%t = tanh(%a)\n%y = mul(%t, %a)", *graph));
}

TEST(Pattern, RefusesAnInnerValueThatIsUsedElsewhereUnlessShared) {
  const auto graph = parse(R"(
    input %x: f32[4]
    %t = tanh(%x)
    %y = exp(%t)
    return %y
    return %t
  )");
  EXPECT_FALSE(matches_text("%t = tanh(%x)\n%y = exp(%t)", *graph));
  EXPECT_TRUE(matches_text("shared %t = tanh(%x)\n%y = exp(%t)", *graph));
}

TEST(Pattern, ChecksNumbersConstantsAndAbsentOperands) {
  const auto graph = parse(R"(
    input %x: f32[2,3]
    const %w: f32[4,3] = random 1
    %y = linear(%x, %w)
    return %y
  )");
  EXPECT_TRUE(matches_text("%y = linear(%x, const %w)", *graph));
  EXPECT_TRUE(matches_text("%y = linear(%x, const %w, none)", *graph));
  EXPECT_TRUE(matches_text("%y = linear(%x, const %w, const? %b)", *graph));
  EXPECT_TRUE(matches_text("%y = linear(%x, %w, ? %b)", *graph));
  EXPECT_FALSE(matches_text("%y = linear(%x, const %w, const %b)", *graph));
  EXPECT_FALSE(matches_text("%y = linear(const %x, const %w)", *graph));
  EXPECT_FALSE(matches_text("%y = linear(%x, 0.5)", *graph));
  Match match;
  ASSERT_TRUE(matches_text("%y = linear(%x, %w, ? %b)", *graph, &match));
  EXPECT_EQ(match.value("b"), nullptr);
}

TEST(Pattern, ChecksAndBindsAttributes) {
  const auto graph = parse(R"(
    input %x: f32[2,3,4]
    %s = softmax(%x, dim=-1)
    %y = softmax(%s, dim=2)
    return %y
  )");
  EXPECT_TRUE(matches_text("%y = softmax(%x, dim=-1)", *graph));
  EXPECT_TRUE(matches_text("%y = softmax(%x, dim=2)", *graph));
  EXPECT_FALSE(matches_text("%y = softmax(%x, dim=1)", *graph));
  Match match;
  ASSERT_TRUE(matches_text("%y = softmax(%x, dim=$d)", *graph, &match));
  EXPECT_EQ(match.i("d"), 2);
  // One name, two values: -1 and 2 are written differently.
  EXPECT_FALSE(matches_text("%s = softmax(%x, dim=$d)\n%y = softmax(%s, dim=$d)", *graph));
}

TEST(PatternDeathTest, MalformedTextIsOurMistake) {
  const auto graph = parse(kHalfGelu);
  EXPECT_DEATH(matches_text("%y = no_such_operator(%x)", *graph), "unknown operator");
  EXPECT_DEATH(matches_text("%y = softmax(%x, dimension=1)", *graph), "unknown attribute");
}

const Rewrite kExpOfTanh = {
    .name = "exp_of_tanh",
    .match = R"(
      %t = tanh(%x)
      %y = exp(%t)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kSigmoid, {m.value("x")});
    },
};

/// Builds, then thinks better of it.
const Rewrite kNever = {
    .name = "never",
    .root = &ops::kExp,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      b.op(ops::kNeg, {node.operand(0)});
      return {};
    },
};

/// Replaces by a value of another type.
const Rewrite kWrongType = {
    .name = "wrong_type",
    .root = &ops::kExp,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      return {b.op(ops::kCast, {node.operand(0)}, {{"dtype", DType::kF64}})};
    },
};

/// Asks for what the operator refuses.
const Rewrite kBroken = {
    .name = "broken",
    .root = &ops::kExp,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      return {b.op(ops::kReshape, {node.operand(0)}, {{"shape", Dims{Dim(7)}}})};
    },
};

constexpr std::string_view kExpTanh = R"(
  input %x: f32[4]
  %t = tanh(%x)
  %y = exp(%t)
  return %y
)";

TEST(ApplyRewrites, ReplacesAndKeepsTheOrigins) {
  const auto graph = parse(kExpTanh);
  graph->origins = {{"tanh_0", "model.a"}, {"exp_0", "model.b"}};
  node_of(*graph, "t").add_origins({0});
  node_of(*graph, "y").add_origins({1});
  PassLog log;
  const Rewrite* const rewrites[] = {&kExpOfTanh};
  const auto count = apply_rewrites(*graph, rewrites, &log, "a pass");
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(*count, 1);
  EXPECT_EQ(log.count("exp_of_tanh"), 1);
  ASSERT_EQ(graph->nodes().size(), 1u);
  Node& node = *graph->first_node();
  EXPECT_TRUE(node.is(ops::kSigmoid));
  EXPECT_EQ(std::set<int>(node.origins().begin(), node.origins().end()), (std::set<int>{0, 1}));
  EXPECT_TRUE(verify(*graph).ok());
}

TEST(ApplyRewrites, LeavesNothingBehindWhenARewriteDoesNotApply) {
  for (const Rewrite* rewrite : {&kNever, &kWrongType}) {
    const auto graph = parse(kExpTanh);
    const std::string before = print(*graph);
    const auto count = apply_rewrites(*graph, std::span(&rewrite, 1));
    ASSERT_TRUE(count.ok());
    EXPECT_EQ(*count, 0);
    EXPECT_EQ(print(*graph), before);
  }
}

TEST(ApplyRewrites, NamesTheRewriteThatBuildsWhatAnOperatorRefuses) {
  const auto graph = parse(kExpTanh);
  const std::string before = print(*graph);
  const Rewrite* const rewrites[] = {&kBroken};
  const auto count = apply_rewrites(*graph, rewrites);
  ASSERT_FALSE(count.ok());
  EXPECT_NE(count.status().message().find("broken"), std::string::npos);
  EXPECT_EQ(print(*graph), before);
}

/// Each undoes what the other does.
const Rewrite kNegToAbs = {
    .name = "neg_to_abs",
    .match = "%y = neg(%x)",
    .build = [](const Match& m, Builder& b) { return b.op(ops::kAbs, {m.value("x")}); },
};
const Rewrite kAbsToNeg = {
    .name = "abs_to_neg",
    .match = "%y = abs(%x)",
    .build = [](const Match& m, Builder& b) { return b.op(ops::kNeg, {m.value("x")}); },
};

TEST(ApplyRewrites, NamesTheRewritesThatUndoEachOther) {
  const auto graph = parse(R"(
    input %x: f32[4]
    %t = exp(%x)
    %y = neg(%t)
    return %y
  )");
  const Rewrite* const rewrites[] = {&kExpOfTanh, &kNegToAbs, &kAbsToNeg};
  const auto count = apply_rewrites(*graph, rewrites);
  ASSERT_FALSE(count.ok());
  EXPECT_NE(count.status().message().find("'neg_to_abs', 'abs_to_neg'"), std::string::npos)
      << count.status().message();
  EXPECT_EQ(count.status().message().find("exp_of_tanh"), std::string::npos);
  EXPECT_TRUE(verify(*graph).ok());
}

std::vector<Pass> two_passes() {
  return {{"first", {&kExpOfTanh}, nullptr},
          {"second", {}, [](Graph& graph) -> Result<int> { return graph.remove_dead(); }}};
}

TEST(RunPipeline, StopsPrintsAndDisables) {
  const auto passes = two_passes();
  const auto graph = parse(kExpTanh);
  PipelineOptions options;
  options.stop_after = "first";
  options.disabled = {"exp_of_tanh"};
  options.print_after = {"all"};
  std::vector<std::string> printed;
  options.print = [&](std::string_view pass, const Graph&) { printed.emplace_back(pass); };
  bool stopped = false;
  ASSERT_TRUE(run_pipeline(*graph, passes, options, nullptr, &stopped).ok());
  EXPECT_TRUE(stopped);
  EXPECT_EQ(printed, std::vector<std::string>{"first"});
  EXPECT_EQ(graph->nodes().size(), 2u);
}

TEST(RunPipeline, RefusesNamesThatNoPassHas) {
  const auto passes = two_passes();
  const auto graph = parse(kExpTanh);
  PipelineOptions options;
  options.disabled = {"no_such_rewrite"};
  const Status status = run_pipeline(*graph, passes, options);
  EXPECT_EQ(status.kind(), ErrorKind::kInvalidArgument);
  EXPECT_NE(status.message().find("no_such_rewrite"), std::string::npos);
}

}  // namespace
}  // namespace downhaul

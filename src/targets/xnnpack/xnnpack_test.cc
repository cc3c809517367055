// Partition, reasons, and small programs with values known by hand, through payloads and back.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/strings.h"
#include "dialects/xnn/raise.h"
#include "formats/xnn/xnn.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/evaluate.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "targets/xnnpack/split.h"
#include "targets/xnnpack/stages.h"
#include "targets/xnnpack/xnnpack.h"

namespace downhaul {
namespace {

std::unique_ptr<Graph> parse(const std::string& body) {
  auto graph = parse_graph("graph test {\n" + body + "}\n", find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message() << "\n" << body;
  return graph.ok() ? *std::move(graph) : nullptr;
}

struct Lowering {
  std::unique_ptr<Graph> graph;
  XnnpackPartition partition;
};

Result<Lowering> lower(const std::string& body, bool exact_select = false,
                       int64_t weight_limit = kOneDelegate) {
  Lowering lowering;
  lowering.graph = parse(body);
  std::vector<Pass> passes = canonical_passes();
  for (Pass& pass : xnnpack_passes(exact_select)) passes.push_back(std::move(pass));
  DH_TRY(run_pipeline(*lowering.graph, passes, {}));
  DH_ASSIGN(lowering.partition, partition_xnnpack(*lowering.graph, weight_limit));
  DH_TRY(verify(*lowering.graph));
  return lowering;
}

/// The graph with each region replaced by what its payload's bytes say.
Result<std::unique_ptr<Graph>> raise(const Lowering& lowering) {
  auto graph = std::make_unique<Graph>();
  std::map<const Value*, Value*> values;
  for (const Value* input : lowering.graph->inputs()) {
    values[input] = graph->add_input(input->name(), input->type());
  }
  const auto mapped = [&](Value* v) -> Value* {
    if (v == nullptr) return nullptr;
    Value*& to = values[v];
    if (to == nullptr) to = graph->add_constant(v->constant(), v->name());
    return to;
  };
  Builder b(*graph, nullptr);
  std::map<const Node*, const DelegatedRegion*> region_of;
  for (const DelegatedRegion& region : lowering.partition.regions) {
    for (const Node* node : region.nodes) region_of[node] = &region;
  }
  for (const auto& node : lowering.graph->nodes()) {
    const auto found = region_of.find(node.get());
    if (found == region_of.end()) {
      std::vector<Value*> operands;
      for (Value* operand : node->operands()) operands.push_back(mapped(operand));
      values[node->result()] = b.like(*node, operands);
      continue;
    }
    const DelegatedRegion& region = *found->second;
    if (node.get() != region.nodes.front()) continue;
    const auto blob = [&](std::string_view key) -> const Tensor* {
      for (const NamedBlob& named : region.blobs) {
        if (named.key == key) return &named.data;
      }
      return nullptr;
    };
    const XnnNamedLookup bytes = [&](std::string_view key) -> std::optional<Bytes> {
      const Tensor* data = blob(key);
      return data == nullptr ? std::nullopt : std::optional<Bytes>(data->bytes());
    };
    const XnnTensorLookup tensor = [&](std::string_view key) -> std::optional<Tensor> {
      const Tensor* data = blob(key);
      if (data == nullptr) return std::nullopt;
      return Tensor(DType::kU8, {static_cast<int64_t>(data->num_bytes())}, data->storage(),
                    data->byte_offset());
    };
    DH_ASSIGN(const XnnGraph payload, read_xnn_payload(region.payload, bytes));
    std::vector<Value*> inputs;
    for (Value* input : region.inputs) inputs.push_back(mapped(input));
    DH_ASSIGN(const std::vector<Value*> outputs, raise_xnn_payload(payload, tensor, inputs, b));
    for (size_t i = 0; i < outputs.size(); ++i) values[region.outputs[i]] = outputs[i];
  }
  DH_TRY(Status(b.status()));
  for (const Output& output : lowering.graph->outputs()) {
    graph->add_output(mapped(output.value), output.name);
  }
  DH_TRY(verify(*graph));
  return graph;
}

/// Outputs after lowering and raising.
std::vector<Tensor> run(const std::string& body, const std::vector<Tensor>& inputs,
                        size_t delegates = 1) {
  const auto lowering = lower(body);
  EXPECT_TRUE(lowering.ok()) << lowering.status().message();
  if (!lowering.ok()) return {};
  EXPECT_EQ(lowering->partition.regions.size(), delegates) << print(*lowering->graph);
  const auto graph = raise(*lowering);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return {};
  auto results = evaluate(**graph, inputs);
  EXPECT_TRUE(results.ok()) << results.status().message();
  return results.ok() ? *std::move(results) : std::vector<Tensor>{};
}

Tensor floats(const Sizes& sizes, const std::vector<float>& values) {
  return Tensor::from<float>(sizes, values);
}

void expect_values(const Tensor& found, const std::vector<double>& expected,
                   double tolerance = 1e-5) {
  ASSERT_EQ(found.num_elements(), static_cast<int64_t>(expected.size())) << describe(found);
  for (size_t i = 0; i < expected.size(); ++i) {
    const double f = found.at(static_cast<int64_t>(i));
    if (std::isnan(expected[i]) && std::isnan(f)) continue;
    EXPECT_NEAR(f, expected[i], tolerance) << "element " << i;
  }
}

// --- values known by hand

TEST(Xnnpack, AddHonoursAlpha) {
  const auto y =
      run("input %x: f32[2]\n input %z: f32[2]\n const %alpha: f32[] = [10]\n"
          "%s = mul(%z, %alpha)\n %y = add(%x, %s)\n return %y\n",
          {floats({2}, {1, 2}), floats({2}, {3, 4})});
  expect_values(y[0], {31, 42});
}

TEST(Xnnpack, BothFormsOfGeluStayApart) {
  const auto y = run(
      "input %x: f32[2]\n %t = gelu(%x, approximate=\"tanh\")\n %e = gelu(%x)\n return %t, %e\n",
      {floats({2}, {-2.7f, 2.0f})});
  expect_values(y[0], {-0.00888759, 1.95459769});
  expect_values(y[1], {-0.00936083, 1.95449974});
}

TEST(Xnnpack, AConvolutionUsedTwiceKeepsItsUnclampedValue) {
  const auto y =
      run("input %x: f32[1,1,1,2]\n const %w: f32[1,1,1,1] = splat 1\n const %b: f32[1] = [0]\n"
          "%c = conv2d(%x, %w, %b)\n %r = clamp(%c, min=0.0)\n %y = add(%r, %c)\n return %y\n",
          {floats({1, 1, 1, 2}, {-2, 3})});
  expect_values(y[0], {-2, 6});
}

TEST(Xnnpack, APermutedTensorMayFeedTwoOperators) {
  std::vector<float> numbers(6);
  for (size_t i = 0; i < 6; ++i) numbers[i] = static_cast<float>(i);
  const auto y =
      run("input %x: f32[1,2,3]\n %p = permute(%x, dims=[0,2,1])\n %r = reshape(%p, shape=[1,6])\n"
          "%s = sum(%p, dims=[1])\n return %r, %s\n",
          {floats({1, 2, 3}, numbers)});
  expect_values(y[0], {0, 3, 1, 4, 2, 5});
  expect_values(y[1], {3, 12});
}

TEST(Xnnpack, SamePaddingOfAnEvenKernelHasTheExtraOneAtTheEnd) {
  const auto y =
      run("input %x: f32[1,1,5,1]\n const %w: f32[1,1,4,1] = splat 1\n"
          "%y = conv2d(%x, %w, padding=[1,0,2,0])\n return %y\n",
          {floats({1, 1, 5, 1}, {1, 1, 1, 1, 1})});
  expect_values(y[0], {3, 4, 4, 3, 2});
}

const char* const kOneRow =
    "input %q: f32[1,1,1,2]\n input %k: f32[1,1,2,2]\n input %v: f32[1,1,2,2]\n";

TEST(Xnnpack, ARowThatMayAttendToNothingIsZero) {
  const auto y =
      run(cat(kOneRow, "input %m: bool[1,1,1,2]\n %y = attention(%q, %k, %v, %m)\n return %y\n"),
          {floats({1, 1, 1, 2}, {1, 0}), floats({1, 1, 2, 2}, {2, 0, 3, 0}),
           floats({1, 1, 2, 2}, {1, 2, 3, 4}), bool_tensor({1, 1, 1, 2}, {false, false})});
  expect_values(y[0], {0, 0});
}

TEST(Xnnpack, AFiniteMaskOfAllKeysIsAnOrdinarySoftmax) {
  const auto y = run(cat(kOneRow,
                         "input %m: f32[1,1,1,2]\n"
                         "%y = attention(%q, %k, %v, %m, scale=1.0)\n return %y\n"),
                     {floats({1, 1, 1, 2}, {1, 0}), floats({1, 1, 2, 2}, {2, 0, 3, 0}),
                      floats({1, 1, 2, 2}, {1, 2, 3, 4}), floats({1, 1, 1, 2}, {-1e4f, -1e4f})});
  const double w = 1 / (1 + std::exp(1.0));
  // -1e4 leaves scores a grid of 2^-10: weights are off by at most 2^-11 times their product.
  expect_values(y[0], {w * 1 + (1 - w) * 3, w * 2 + (1 - w) * 4}, 1e-3);
}

TEST(Xnnpack, AnInfiniteMaskOfAllKeysSpreadsNanInItsRowOnly) {
  const float inf = INFINITY;
  const auto y =
      run("input %s: f32[2,2]\n input %m: f32[2,2]\n %a = add(%s, %m)\n %y = softmax(%a, dim=-1)\n"
          "return %y\n",
          {floats({2, 2}, {2, 3, 0, 0}), floats({2, 2}, {-inf, -inf, 0, 0})});
  expect_values(y[0], {NAN, NAN, 0.5, 0.5});
}

TEST(Xnnpack, BothRulesOfBilinearResize) {
  const std::vector<Tensor> image = {floats({1, 1, 2, 2}, {0, 1, 2, 3})};
  const auto half =
      run("input %x: f32[1,1,2,2]\n %u = upsample_bilinear2d(%x, output_size=[4,4])\n"
          "%y = slice(%u, dim=2, start=0, end=2)\n return %y\n",
          image);
  expect_values(half[0], {0, 0.25, 0.75, 1, 0.5, 0.75, 1.25, 1.5});
  const auto corners =
      run("input %x: f32[1,1,2,2]\n"
          "%u = upsample_bilinear2d(%x, output_size=[4,4], align_corners=true)\n"
          "%y = slice(%u, dim=2, start=0, end=2)\n return %y\n",
          image);
  expect_values(corners[0], {0, 1.0 / 3, 2.0 / 3, 1, 2.0 / 3, 1, 4.0 / 3, 5.0 / 3});
}

// --- one delegate, and what stays outside

const char* const kMaskedRow =
    "input %x: f32[1,6,4]\n input %ids: i64[1,6]\n const %w: f32[64,4] = random 1\n"
    "const %mask: i64[] = [3]\n %h = linear(%x, %w)\n %e = eq(%ids, %mask)\n"
    "%c = cast(%e, dtype=i64)\n %a = argmax(%c, dim=1)\n %y = batched_select(%h, %a)\n return %y\n";

TEST(Xnnpack, TheFirstMaskedRowIsPickedInsideTheDelegate) {
  const auto lowering = lower(kMaskedRow);
  ASSERT_TRUE(lowering.ok()) << lowering.status().message();
  EXPECT_EQ(lowering->partition.regions.size(), 1u);
  ASSERT_EQ(lowering->partition.outside.size(), 1u);
  EXPECT_EQ(lowering->partition.outside[0].node->op_name(), "cast");
  EXPECT_EQ(lowering->partition.outside[0].reason, "XNNPACK has no node for cast");

  const auto original = parse(kMaskedRow);
  const auto raised = raise(*lowering);
  ASSERT_TRUE(raised.ok()) << raised.status().message();
  std::vector<float> x(24);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (const std::vector<int64_t>& ids : {std::vector<int64_t>{3, 1, 1, 1, 1, 1},
                                          {1, 1, 1, 1, 1, 3},
                                          {1, 3, 3, 1, 3, 1},
                                          {1, 1, 1, 1, 1, 1},
                                          {3, 3, 3, 3, 3, 3}}) {
    const std::vector<Tensor> inputs = {floats({1, 6, 4}, x), Tensor::from<int64_t>({1, 6}, ids)};
    const auto expected = evaluate(*original, inputs);
    const auto found = evaluate(**raised, inputs);
    ASSERT_TRUE(expected.ok() && found.ok());
    for (int64_t i = 0; i < 64; ++i) {
      EXPECT_NEAR((*found)[0].at(i), (*expected)[0].at(i), 1e-5);
    }
  }
}

TEST(Xnnpack, ExactSelectPicksRowsWithAKernel) {
  const auto lowering = lower(kMaskedRow, true);
  ASSERT_TRUE(lowering.ok()) << lowering.status().message();
  std::set<std::string_view> outside;
  for (const OutsideNode& node : lowering->partition.outside) {
    outside.insert(node.node->op_name());
    EXPECT_FALSE(node.reason.empty());
  }
  EXPECT_TRUE(outside.contains("index"));
}

TEST(Xnnpack, ATinyPieceBesideARealOneStaysOutside) {
  const auto lowering = lower(
      "input %x: f32[1,4]\n input %t: f32[4]\n const %w: f32[64,4] = random 1\n"
      "%h = linear(%x, %w)\n %e = erf(%h)\n %y = abs(%e)\n return %y\n");
  ASSERT_TRUE(lowering.ok()) << lowering.status().message();
  EXPECT_EQ(lowering->partition.regions.size(), 1u);
  ASSERT_EQ(lowering->partition.outside.size(), 2u);
  EXPECT_EQ(lowering->partition.outside[1].reason, "too little work for a delegate of its own");
}

TEST(Xnnpack, AResultInAnotherShapeIsAViewOutside) {
  const auto graph = parse(
      "input %x: f32[2,8]\n const %w: f32[600,8] = random 1\n %h = linear(%x, %w)\n"
      "%r = reshape(%h, shape=[4,300])\n return %r\n");
  const auto lowered = lower_xnnpack(*graph);
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  EXPECT_EQ(lowered->lowered.program.num_delegate_calls, 1);
  EXPECT_EQ(lowered->lowered.program.num_kernel_calls, 0);
  ASSERT_EQ(lowered->partition.outside.size(), 1u);
  EXPECT_EQ(lowered->partition.outside[0].reason, "a view outside moves no data");
}

TEST(Xnnpack, WhatNoDelegateTakesIsLegalizedForKernels) {
  const auto graph = parse(
      "input %x: f16[2,8]\n const %w: f16[8] = random 1\n"
      "%n = layer_norm(%x, %w, normalized_shape=[8])\n %y = silu(%n)\n return %y\n");
  const auto lowered = lower_xnnpack(*graph);
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  EXPECT_EQ(lowered->lowered.program.num_delegate_calls, 0);
  EXPECT_GT(lowered->lowered.program.num_kernel_calls, 0);
}

TEST(Xnnpack, TiedWeightsShareTheirBytes) {
  const auto lowering = lower(
      "input %ids: i64[1,8]\n const %table: f32[1000,64] = random 1\n"
      "%e = embedding(%table, %ids)\n %h = gelu(%e)\n %y = linear(%h, %table)\n return %y\n");
  ASSERT_TRUE(lowering.ok()) << lowering.status().message();
  ASSERT_EQ(lowering->partition.regions.size(), 1u);
  const Tensor& table = lowering->graph->find_value("table")->constant();
  bool found = false;
  for (const NamedBlob& blob : lowering->partition.regions[0].blobs) {
    if (blob.data.num_bytes() != 256000) continue;
    found = true;
    EXPECT_EQ(blob.data.storage(), table.storage());
    EXPECT_EQ(blob.data.byte_offset(), table.byte_offset());
  }
  EXPECT_TRUE(found);
}

TEST(Xnnpack, BoundedLengthsAreRightAtEveryLength) {
  const char* body =
      "symbol s in [1, 7]\n input %x: f32[1,s,8]\n const %q: f32[8,24] = random 1\n"
      "%qkv = linear(%x, %q, weight_transposed=true)\n"
      "%a = slice(%qkv, dim=2, start=0, end=8)\n %ar = reshape(%a, shape=[1,s,2,4])\n"
      "%ap = permute(%ar, dims=[0,2,1,3])\n"
      "%b = slice(%qkv, dim=2, start=8, end=16)\n %br = reshape(%b, shape=[1,s,2,4])\n"
      "%bp = permute(%br, dims=[0,2,1,3])\n"
      "%c = slice(%qkv, dim=2, start=16, end=24)\n %cr = reshape(%c, shape=[1,s,2,4])\n"
      "%cp = permute(%cr, dims=[0,2,1,3])\n"
      "%t = attention(%ap, %bp, %cp, is_causal=true)\n %tp = permute(%t, dims=[0,2,1,3])\n"
      "%h = reshape(%tp, shape=[1,s,8])\n %g = gelu(%h)\n"
      "%l = slice(%g, dim=1, start=s - 1, end=s)\n return %l\n";
  const auto lowering = lower(body);
  ASSERT_TRUE(lowering.ok()) << lowering.status().message();
  EXPECT_EQ(lowering->partition.regions.size(), 1u) << print(*lowering->graph);
  for (const OutsideNode& outside : lowering->partition.outside) {
    EXPECT_EQ(outside.node->op_name(), "slice");
  }
  const auto original = parse(body);
  const auto raised = raise(*lowering);
  ASSERT_TRUE(raised.ok()) << raised.status().message();
  std::mt19937 random(5);
  for (int64_t s = 1; s <= 7; ++s) {
    Tensor x(DType::kF32, {1, s, 8});
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      x.set(i, std::uniform_real_distribution<float>(-2, 2)(random));
    }
    const auto expected = evaluate(*original, {x});
    const auto found = evaluate(**raised, {x});
    ASSERT_TRUE(expected.ok() && found.ok());
    for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR((*found)[0].at(i), (*expected)[0].at(i), 1e-5);
  }
}

// --- partition

TEST(XnnpackSplit, TheCutMinimisesThePeakAndHandsOverLittle) {
  // Weights of 4, 16 and 16 KiB, and a wide value between the last two.
  const auto graph = parse(
      "input %x: f32[1,32]\n const %a: f32[32,32] = random 1\n const %b: f32[128,32] = random 2\n"
      "const %c: f32[32,128] = random 3\n %p = linear(%x, %a)\n %q = linear(%p, %b)\n"
      "%r = gelu(%q)\n %s = slice(%r, dim=1, start=0, end=64)\n %t = concat(%s, %s, dim=1)\n"
      "%u = linear(%t, %c)\n return %u\n");
  ASSERT_NE(graph, nullptr);
  std::vector<Node*> nodes;
  for (const auto& node : graph->nodes()) nodes.push_back(node.get());
  // Two parts of 20 and 16 KiB peak at 52 KiB, 4 and 32 at 68. After the slice least crosses.
  EXPECT_EQ(xnnpack::split_for_memory(nodes, 36 * 1024 - 1), 4u);
  EXPECT_EQ(xnnpack::split_for_memory(nodes, 36 * 1024), nodes.size());
}

TEST(XnnpackSplit, AWeightOfBothSidesIsPackedTwice) {
  // One delegate packs it once (peak 2 of its sizes), two do so each (peak 3).
  const auto graph = parse(
      "input %x: f32[1,32]\n const %w: f32[32,32] = random 1\n"
      "%p = linear(%x, %w)\n %q = linear(%p, %w)\n return %q\n");
  ASSERT_NE(graph, nullptr);
  std::vector<Node*> nodes;
  for (const auto& node : graph->nodes()) nodes.push_back(node.get());
  EXPECT_EQ(xnnpack::split_for_memory(nodes, 0), nodes.size());
}

TEST(XnnpackSplit, TwoDelegatesComputeWhatOneDoes) {
  // The second half needs the first one's input, its result and what lies between; erf is outside.
  const char* body =
      "input %x: f32[128,32]\n const %a: f32[32,32] = random 1\n const %b: f32[32,32] = random 2\n"
      "const %c: f32[32,32] = random 3\n %p = linear(%x, %a)\n %g = gelu(%p)\n"
      "%q = linear(%g, %b)\n %r = add(%q, %g)\n %s = linear(%r, %c)\n %t = add(%s, %x)\n"
      "%u = mul(%t, %p)\n %v = erf(%u)\n %w = mul(%v, %g)\n return %w, %g\n";
  const auto one = lower(body);
  const auto two = lower(body, false, 3 * 4096 - 1);
  ASSERT_TRUE(one.ok() && two.ok());
  ASSERT_EQ(one->partition.regions.size(), 2u);
  EXPECT_EQ(one->partition.split, "");
  ASSERT_EQ(two->partition.regions.size(), 3u);
  EXPECT_NE(two->partition.split, "");
  std::mt19937 random(7);
  Tensor x(DType::kF32, {128, 32});
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    x.set(i, std::uniform_real_distribution<float>(-2, 2)(random));
  }
  const auto raised_one = raise(*one);
  const auto raised_two = raise(*two);
  ASSERT_TRUE(raised_one.ok() && raised_two.ok());
  const auto expected = evaluate(**raised_one, {x});
  const auto found = evaluate(**raised_two, {x});
  ASSERT_TRUE(expected.ok() && found.ok());
  for (size_t output = 0; output < 2; ++output) {
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      ASSERT_EQ((*found)[output].at(i), (*expected)[output].at(i));
    }
  }
}

TEST(XnnpackStages, DelegatesOfRandomGraphsAreConvexAndOrdered) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    Graph graph;
    std::vector<Value*> values = {graph.add_input("x", {DType::kF32, {Dim(2)}})};
    const int size = std::uniform_int_distribution<int>(1, 40)(random);
    std::unordered_map<const Node*, std::string> refusals;
    for (int i = 0; i < size; ++i) {
      const auto any = [&] {
        return values[std::uniform_int_distribution<size_t>(0, values.size() - 1)(random)];
      };
      Value* a = any();
      auto node = graph.insert(nullptr, ops::kAdd, {a, any()});
      ASSERT_TRUE(node.ok());
      values.push_back((*node)->result());
      if (std::bernoulli_distribution(0.3)(random)) refusals[*node] = "by lot";
      if (std::bernoulli_distribution(0.1)(random)) graph.add_output((*node)->result(), "y");
    }
    graph.add_output(values.back(), "last");
    const xnnpack::Stages stages = xnnpack::assign_stages(graph, refusals);
    std::map<const Node*, size_t> step;  // outside 0, delegate 0, outside 1, …
    for (size_t s = 0; s < stages.delegate.size(); ++s) {
      for (const Node* n : stages.outside[s]) step[n] = 2 * s;
      for (const Node* n : stages.delegate[s]) step[n] = 2 * s + 1;
    }
    ASSERT_EQ(step.size(), graph.nodes().size());
    for (const auto& node : graph.nodes()) {
      EXPECT_EQ(refusals.contains(node.get()), step[node.get()] % 2 == 0);
      for (const Value* operand : node->operands()) {
        if (operand->producer() == nullptr) continue;
        // Steps never go back along an edge: a path that leaves a delegate cannot return to it.
        EXPECT_LE(step[operand->producer()], step[node.get()]);
      }
    }
  }
}

}  // namespace
}  // namespace downhaul

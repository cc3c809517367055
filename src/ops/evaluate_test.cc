#include "ops/evaluate.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ir/text.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

std::unique_ptr<Graph> parse(std::string_view text) {
  auto graph = parse_graph(text, find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  return graph.ok() ? *std::move(graph) : nullptr;
}

constexpr const char* kDynamic = R"(graph g {
  symbol s0 in [1, 8]
  input %x: f32[s0,2]
  input %z: f32[2*s0]
  %r = reshape(%x, shape=[2*s0])
  %y = add(%r, %z)
  %n = dim_scalar(value=s0 + 1)
  return %y, %n
})";

TEST(Evaluate, BindsSymbolsFromInputs) {
  const auto graph = parse(kDynamic);
  const auto out = evaluate(*graph, {Tensor::from<float>({2, 2}, {1, 2, 3, 4}),
                                     Tensor::from<float>({4}, {10, 20, 30, 40})});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_TRUE(same_bytes((*out)[0], Tensor::from<float>({4}, {11, 22, 33, 44})));
  EXPECT_EQ((*out)[1].int_at(0), 3);
}

TEST(Evaluate, SolvesForASymbolThatOnlyAnExpressionShows) {
  const auto graph = parse(R"(graph g {
    symbol s0 in [1, 8]
    input %x: f32[3*s0 + 1]
    %n = dim_scalar(value=s0)
    return %n
  })");
  const auto out = evaluate(*graph, {Tensor(DType::kF32, {7})});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ((*out)[0].int_at(0), 2);
  const auto odd = evaluate(*graph, {Tensor(DType::kF32, {8})});
  ASSERT_FALSE(odd.ok());
  EXPECT_EQ(odd.status().message(), "input x: expected f32[3*s0 + 1], found f32[8]");
}

TEST(Evaluate, NamesTheInputThatDoesNotFit) {
  const auto graph = parse(kDynamic);
  const Tensor z(DType::kF32, {4});
  const auto message = [&](std::vector<Tensor> inputs) {
    const auto out = evaluate(*graph, inputs);
    EXPECT_FALSE(out.ok());
    EXPECT_EQ(out.status().kind(), ErrorKind::kInvalidArgument);
    return out.status().message();
  };
  EXPECT_EQ(message({z}), "expected 2 inputs, found 1");
  EXPECT_EQ(message({Tensor(DType::kI64, {2, 2}), z}),
            "input x: expected f32[s0,2], found i64[2,2]");
  EXPECT_EQ(message({Tensor(DType::kF32, {2, 3}), z}),
            "input x: expected f32[s0,2], found f32[2,3]");
  EXPECT_EQ(message({Tensor(DType::kF32, {3, 2}), z}), "input z: expected f32[2*s0], found f32[4]");
  EXPECT_EQ(message({Tensor(DType::kF32, {9, 2}), Tensor(DType::kF32, {18})}),
            "input x: expected s0 in [1, 8], found 9");
}

TEST(Evaluate, ReportsEachNodeInOrder) {
  const auto graph = parse(R"(graph g {
    input %x: f32[2]
    %a = neg(%x)
    %b = abs(%a)
    return %b, %x
  })");
  std::vector<std::string> seen;
  EvaluateOptions options;
  options.context = &seen;
  options.on_node = [](const Node& node, const std::vector<Tensor>& results, void* context) {
    EXPECT_EQ(results.size(), 1u);
    static_cast<std::vector<std::string>*>(context)->push_back(node.result()->name());
  };
  const auto out = evaluate(*graph, {Tensor::from<float>({2}, {-1, 2})}, options);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(same_bytes((*out)[0], Tensor::from<float>({2}, {1, 2})));
  EXPECT_TRUE(same_bytes((*out)[1], Tensor::from<float>({2}, {-1, 2})));
}

TEST(Evaluate, ReadsStateAndConstantOutputs) {
  const auto graph = parse(R"(graph g {
    state %s: f32[2] = splat 3
    const %c: f32[2] = [1, 2]
    %n = add(%s, %c)
    return %n, %c
    update %s = %n
  })");
  const auto out = evaluate(*graph, {});
  ASSERT_TRUE(out.ok());
  EXPECT_TRUE(same_bytes((*out)[0], Tensor::from<float>({2}, {4, 5})));
}

TEST(EvaluateNode, RefusesOperandsThatAreNotOfTheNodesTypes) {
  const auto graph = parse(R"(graph g {
    input %x: f32[2]
    %y = neg(%x)
    return %y
  })");
  const Tensor wrong(DType::kF32, {3});
  const auto out = evaluate_node(*graph->first_node(), {&wrong});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().message(), "neg: x: expected f32[2], found f32[3]");
  EXPECT_FALSE(evaluate_node(*graph->first_node(), {nullptr}).ok());
  EXPECT_FALSE(evaluate_node(*graph->first_node(), {}).ok());
}

TEST(EvaluateNode, ReadsOperandsAtUnalignedAddresses) {
  const auto graph = parse(R"(graph g {
    input %x: f32[2]
    %y = neg(%x)
    return %y
  })");
  auto storage = Storage::allocate(9);
  const float values[2] = {1, -2};
  std::memcpy(storage->mutable_bytes().data() + 1, values, sizeof(values));
  const Tensor x(DType::kF32, {2}, storage, 1);
  const auto out = evaluate_node(*graph->first_node(), {&x});
  ASSERT_TRUE(out.ok());
  EXPECT_TRUE(same_bytes((*out)[0], Tensor::from<float>({2}, {-1, 2})));
}

}  // namespace
}  // namespace downhaul

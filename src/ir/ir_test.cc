#include <gtest/gtest.h>

#include "ir/graph.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace downhaul {
namespace {

// Two small operators, so that this folder is tested without those of the product.
const OpDef kScale = {
    .name = "scale",
    .schema = "scale(Tensor self, float factor=2.0, int[] dims=[]) -> Tensor",
    .infer = [](const Node& n) -> Result<std::vector<TensorType>> {
      return std::vector{n.type("self")};
    },
    .axes = nullptr,
    .reference = nullptr,
};
const OpDef kJoin = {
    .name = "join",
    .schema = "join(Tensor? first, Tensor[] others, dim size) -> (Tensor, Tensor)",
    .infer = [](const Node& n) -> Result<std::vector<TensorType>> {
      if (n.list().empty()) return invalid_graph("join: expected at least one of others");
      TensorType t{n.list()[0]->dtype(), {n.dim("size")}};
      return std::vector{t, t};
    },
    .axes = nullptr,
    .reference = nullptr,
};

const OpDef* lookup(std::string_view name) {
  for (const OpDef* op : {&kScale, &kJoin}) {
    if (op->name == name) return op;
  }
  return nullptr;
}

std::unique_ptr<Graph> parse(std::string_view text) {
  auto g = parse_graph(text, lookup);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return g.ok() ? *std::move(g) : nullptr;
}

constexpr std::string_view kText = R"(graph forward {
  symbol s0 in [1, 512]
  input %x: f32[1,s0]
  state %cache: f32[2] = splat 0
  const %w: f32[2] = [0.5, -1]
  %y: f32[1,s0] = scale(%x)
  %a: f32[s0 + 1], %b: f32[s0 + 1] = join(none, %y, %w, size=s0 + 1)
  %z: f32[2] = scale(%w, factor=3.5, dims=[0,1])
  return %a as "first", %z as "z"
  update %cache = %z
}
)";

TEST(Text, PrintingIsTheInverseOfParsing) {
  const auto g = parse(kText);
  ASSERT_NE(g, nullptr);
  EXPECT_EQ(print(*g), kText);
  EXPECT_TRUE(verify(*g).ok());
  EXPECT_EQ(print(*g->clone()), kText);
}

TEST(Text, ErrorsNameTheLine) {
  const auto error = [](std::string_view text) {
    return parse_graph(text, lookup).status().message();
  };
  EXPECT_EQ(error("graph g {\n  %y = scale(%x)\n}"), "line 2: %x is not defined");
  EXPECT_EQ(error("graph g {\n  input %x: f32[1]\n  %y = shrink(%x)\n}"),
            "line 3: unknown operator 'shrink'");
  EXPECT_EQ(error("graph g {\n  input %x: f32[1]\n  %y: f32[2] = scale(%x)\n}"),
            "line 3: %y is f32[1], stated as f32[2]");
  EXPECT_EQ(error("graph g {\n  %a, %b = join(none, size=1)\n}"),
            "line 2: join: expected at least one of others");
}

TEST(Graph, ReplacingUsesReachesNodesAndOutputs) {
  const auto g = parse(R"(graph g {
    input %x: f32[4]
    %y = scale(%x)
    %z = scale(%y)
    return %y as "y", %z as "z"
  })");
  Value* y = g->find_value("y");
  EXPECT_EQ(y->num_uses(), 2);
  g->replace_all_uses(y, g->find_value("x"));
  EXPECT_EQ(y->num_uses(), 0);
  EXPECT_EQ(g->remove_dead(), 1);
  EXPECT_EQ(g->outputs()[0].value, g->find_value("x"));
  EXPECT_TRUE(verify(*g).ok());
}

TEST(Graph, SuffixesOfNamesCountOnWhenANameIsFreeAgain) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::kF32, {2}});
  const auto add = [&] {
    Result<Node*> node = graph.insert(nullptr, kScale, {x});
    EXPECT_TRUE(node.ok());
    return *node;
  };
  Node* first = add();
  Node* second = add();
  EXPECT_EQ(second->result()->name(), "scale_1");
  EXPECT_EQ(add()->result()->name(), "scale_2");
  graph.erase(second);
  graph.erase(first);
  EXPECT_EQ(add()->result()->name(), "scale");
  // Not scale_1: looking for the first free number from 1 on takes as long as there are names.
  EXPECT_EQ(add()->result()->name(), "scale_3");
}

TEST(Graph, OriginsOfManyMergedNodesAreKeptOnceInOrder) {
  Graph graph;
  Value* x = graph.add_input("x", {DType::kF32, {2}});
  Node* node = *graph.insert(nullptr, kScale, {x});
  std::vector<int> even, all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(i);
    if (i % 2 == 0) even.push_back(i);
  }
  node->add_origins(even);
  node->add_origins(all);
  ASSERT_EQ(node->origins().size(), 100U);
  EXPECT_EQ(node->origins()[1], 2);
  EXPECT_EQ(node->origins()[50], 1);
}

TEST(Graph, InsertRefusesWhatTheSchemaDoesNotKnow) {
  const auto g = parse("graph g {\n input %x: f32[4]\n return %x as \"x\"\n}");
  Value* x = g->inputs()[0];
  EXPECT_FALSE(g->insert(nullptr, kScale, {}).ok());
  EXPECT_FALSE(g->insert(nullptr, kScale, {x, x}).ok());
  EXPECT_FALSE(g->insert(nullptr, kScale, {x}, {{"speed", 1.0}}).ok());
  EXPECT_FALSE(g->insert(nullptr, kScale, {x}, {{"factor", true}}).ok());
  EXPECT_TRUE(g->insert(nullptr, kScale, {x}, {{"factor", int64_t{3}}}).ok());
  EXPECT_EQ(g->nodes().size(), 1u);
}

TEST(Verify, FindsAUseBeforeItsDefinition) {
  const auto g = parse(R"(graph g {
    input %x: f32[4]
    %y = scale(%x)
    %z = scale(%y)
    return %z as "z"
  })");
  g->move(g->find_value("z")->producer(), g->first_node());
  EXPECT_EQ(verify(*g).message(), "node %z (scale): operand %y is used before its definition");
}

TEST(Dim, ArithmeticKeepsANormalForm) {
  auto symbol = std::make_shared<Symbol>();
  symbol->name = "s0";
  symbol->min = 2;
  symbol->max = 64;
  const Dim s(symbol);
  EXPECT_EQ(s + s, Dim(2) * s);
  EXPECT_EQ((s + 1) * (s - 1), s * s - 1);
  EXPECT_EQ((s - s), Dim(0));
  EXPECT_EQ(*(Dim(768) * s).divided_by(64), Dim(12) * s);
  EXPECT_EQ(*(Dim(768) * s).divided_by(Dim(2) * s), Dim(384));
  EXPECT_FALSE((s + 1).divided_by(s).has_value());
  EXPECT_EQ((Dim(2) * s + 1).max(), 129);
  EXPECT_EQ((Dim(65) - s).min(), 1);
  EXPECT_EQ(floor_div(s, 2).str(), "s0//2");
  EXPECT_EQ(floor_div(s, 2).max(), 32);
  EXPECT_EQ(*floor_div(s + 1, 2).eval({{"s0", 6}}), 3);
  EXPECT_FALSE(s.eval({}).has_value());
  const std::map<std::string, SymbolPtr, std::less<>> symbols = {{"s0", symbol}};
  for (const Dim& d : {s, Dim(2) * s + 1, floor_div(s + 1, 2), max(s, 7), s * s - 3, Dim(0) - s,
                       Dim(3) * floor_div(s, 2)}) {
    const auto back = parse_dim(d.str(), symbols);
    ASSERT_TRUE(back.has_value()) << d.str();
    EXPECT_EQ(*back, d) << d.str();
  }
}

}  // namespace
}  // namespace downhaul

#include "ops/ops.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/text.h"
#include "ops/evaluate.h"

namespace downhaul {
namespace {

std::vector<float> floats(const Tensor& t) {
  std::vector<float> out;
  for (int64_t i = 0; i < t.num_elements(); ++i) out.push_back(static_cast<float>(t.at(i)));
  return out;
}

/// Evaluates a graph without inputs: the body of its text, which defines %y.
Result<Tensor> try_run(std::string_view body) {
  DH_ASSIGN(auto graph, parse_graph("graph g {\n" + std::string(body) + "\nreturn %y\n}", find_op));
  DH_ASSIGN(auto outputs, evaluate(*graph, {}));
  return outputs[0];
}

std::vector<float> run(std::string_view body) {
  const auto result = try_run(body);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? floats(*result) : std::vector<float>();
}

/// The message of the error that building or evaluating gives.
std::string error(std::string_view body) {
  const auto result = try_run(body);
  EXPECT_FALSE(result.ok());
  return result.status().message();
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

// --- values worked by hand

TEST(Linear, MultipliesByTransposedWeightAndAddsBias) {
  EXPECT_EQ(run(R"(const %x: f32[1,3] = [1, 2, 3]
                   const %w: f32[2,3] = [1, 0, 1, 0, 1, 1]
                   const %b: f32[2] = [10, 20]
                   %y = linear(%x, %w, %b))"),
            (std::vector<float>{14, 25}));
}

TEST(Conv2d, PadsEvenKernelsAsGiven) {
  EXPECT_EQ(run(R"(const %x: f32[1,1,5,1] = splat 1
                   const %w: f32[1,1,4,1] = splat 1
                   %y = conv2d(%x, %w, padding=[1,0,2,0]))"),
            (std::vector<float>{3, 4, 4, 3, 2}));
}

TEST(UpsampleBilinear2d, FollowsTheHalfPixelRule) {
  const auto y = run(R"(const %x: f32[1,1,2,2] = [0, 1, 2, 3]
                        %y = upsample_bilinear2d(%x, output_size=[4,4]))");
  ASSERT_EQ(y.size(), 16u);
  EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 8),
            (std::vector<float>{0, 0.25, 0.75, 1, 0.5, 0.75, 1.25, 1.5}));
}

TEST(UpsampleBilinear2d, FollowsTheCornerRule) {
  const auto y = run(R"(const %x: f32[1,1,2,2] = [0, 1, 2, 3]
                        %y = upsample_bilinear2d(%x, output_size=[4,4], align_corners=true))");
  ASSERT_EQ(y.size(), 16u);
  expect_near({y.begin(), y.begin() + 8}, {0, 1.F / 3, 2.F / 3, 1, 2.F / 3, 1, 4.F / 3, 5.F / 3},
              1e-6F);
}

constexpr const char* kTwoKeys = R"(
    const %q: f32[1,2] = [1, 0]
    const %k: f32[2,2] = [2, 0, 3, 0]
    const %v: f32[2,2] = [1, 2, 3, 4]
)";

TEST(Attention, GivesZerosToAQueryThatMayAttendToNothing) {
  EXPECT_EQ(run(std::string(kTwoKeys) + R"(const %m: bool[1,2] = [0, 0]
                                           %y = attention(%q, %k, %v, %m, scale=1))"),
            (std::vector<float>{0, 0}));
}

TEST(Attention, TakesALargeNegativeMaskAsAnOrdinaryOne) {
  // Scores 2 and 3 keep their difference: weights 0.2689 and 0.7311.
  expect_near(run(std::string(kTwoKeys) + R"(const %m: f32[1,2] = splat -1e4
                                             %y = attention(%q, %k, %v, %m, scale=1))"),
              {0.2689F * 1 + 0.7311F * 3, 0.2689F * 2 + 0.7311F * 4}, 1e-3F);
}

TEST(Softmax, GivesNanToALineOfMinusInfinityOnly) {
  const auto y = run(R"(const %x: f32[2,2] = [-inf, -inf, 0, 0]
                        %y = softmax(%x, dim=1))");
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], 0.5F);
}

TEST(Embedding, IsExactForEveryIdOfALargeTable) {
  EXPECT_EQ(run(R"(%r = arange(start=0, end=50257, dtype=f32)
                   %t = reshape(%r, shape=[50257,1])
                   const %i: i64[5] = [0, 32767, 32768, 40000, 50256]
                   %y = embedding(%t, %i))"),
            (std::vector<float>{0, 32767, 32768, 40000, 50256}));
}

TEST(FloorDivide, WrapsTheOneQuotientThatDoesNotFit) {
  EXPECT_EQ(run(R"(const %a: i8[2] = [-128, 7]
                   const %b: i8[2] = [-1, -2]
                   %y = floor_divide(%a, %b))"),
            (std::vector<float>{-128, -4}));
}

TEST(Quantize, RoundsHalvesToEvenAndMakesNanTheLowest) {
  EXPECT_EQ(run(R"(const %x: f32[4] = [0.5, 1.5, 2.5, nan]
                   const %s: f32[] = [1]
                   const %z: i32[] = [0]
                   %y = quantize(%x, %s, %z, quant_min=-128, quant_max=127, dtype=i8))"),
            (std::vector<float>{0, 2, 2, -128}));
}

TEST(Gelu, KeepsItsDigitsForNegativeInputs) {
  // 0.5 x erfc(-x / sqrt 2) at -5: -1.4332577e-6; 1 + erf would cancel to a few digits.
  const auto y = run("const %x: f32[1] = [-5]\n%y = gelu(%x)");
  EXPECT_NEAR(y[0] / -1.4332577e-6F, 1.0F, 1e-5F);
}

TEST(LayerNorm, OfAConstantRowIsTheBias) {
  EXPECT_EQ(run(R"(const %x: f32[1,4] = splat 0
                   const %w: f32[4] = splat 1
                   const %b: f32[4] = splat 0.5
                   %y = layer_norm(%x, %w, %b, normalized_shape=[4], eps=1e-12))"),
            (std::vector<float>{0.5, 0.5, 0.5, 0.5}));
}

// --- kernels that work block by block give the same across the blocks

TEST(Attention, IsTheSameForManyQueriesAsForSome) {
  const auto queries = [](std::string_view select) {
    return run(R"(const %x: f32[300,2] = random 1
                  const %k: f32[4096,2] = random 2
                  const %v: f32[4096,1] = random 3
                  const %m: bool[300,4096] = random 4
    )" + std::string(select));
  };
  const auto all = queries("%y = attention(%x, %k, %v, %m)");
  const auto last = queries(R"(%q = slice(%x, dim=0, start=250, end=300)
                               %n = slice(%m, dim=0, start=250, end=300)
                               %y = attention(%q, %k, %v, %n))");
  ASSERT_EQ(all.size(), 300u);
  EXPECT_EQ(std::vector<float>(all.begin() + 250, all.end()), last);
}

TEST(ConvTranspose2d, WithOneTapIsAConvolution) {
  const std::string operands = R"(const %x: f32[1,2,40,40] = random 1
                                  const %w: f32[2,1024,1,1] = random 2
  )";
  EXPECT_EQ(run(operands + "%y = conv_transpose2d(%x, %w)"),
            run(operands + R"(%t = permute(%w, dims=[1,0,2,3])
                              %y = conv2d(%x, %t))"));
}

TEST(Conv2d, CountsTheElementsUnderAKernelAsLongAsTheImage) {
  const auto y = run(R"(const %x: f32[1,2,1,6200] = splat 1
                        const %w: f32[1,2,1,4096] = splat 1
                        %y = conv2d(%x, %w, padding=[0,3,0,0]))");
  ASSERT_EQ(y.size(), 2108u);
  EXPECT_EQ(y[0], 2 * 4093);
  EXPECT_EQ(y[3], 2 * 4096);
  EXPECT_EQ(y.back(), 2 * 4096);
}

// --- what inference and evaluation refuse, and how they say it

TEST(OpErrors, NameTheIndexAndTheRange) {
  const char* table = "const %t: f32[3,1] = [1, 2, 3]\n";
  EXPECT_EQ(error(std::string(table) + "const %i: i64[1] = [3]\n%y = embedding(%t, %i)"),
            "node y: embedding: index 3 out of range [0, 3)");
  EXPECT_EQ(error(std::string(table) + "const %i: i64[1] = [-1]\n%y = embedding(%t, %i)"),
            "node y: embedding: index -1 out of range [0, 3)");
  EXPECT_EQ(error(std::string(table) + "const %i: i64[1] = [-4]\n%y = index(%t, %i)"),
            "node y: index: index -4 out of range [-3, 3)");
  EXPECT_EQ(error(std::string(table) + "const %i: i64[1,1] = [3]\n%y = gather(%t, %i, dim=0)"),
            "node y: gather: index 3 out of range [0, 3)");
}

struct Refusal {
  const char* body;
  const char* message;  ///< part of it
};

TEST(OpErrors, NameArgumentExpectedAndFound) {
  const Refusal refusals[] = {
      {"const %x: f32[2,3] = splat 0\nconst %w: f32[4,2] = splat 0\n%y = linear(%x, %w)",
       "weight: expected size 3 in dimension 1, found 2"},
      {"const %x: i64[2,3] = splat 0\nconst %w: i64[4,3] = splat 0\n%y = linear(%x, %w)",
       "input: expected a floating-point dtype, found i64[2,3]"},
      {"const %x: f32[2,3] = splat 0\nconst %z: f64[2,3] = splat 0\n%y = add(%x, %z)",
       "other: expected f32 like self, found f64[2,3]"},
      {"const %x: f32[2,3] = splat 0\nconst %z: f32[2] = splat 0\n%y = add(%x, %z)",
       "self and other: expected shapes that broadcast, found [2,3] and [2]"},
      {"const %x: f32[2,3] = splat 0\n%y = softmax(%x, dim=2)",
       "dim: expected a dimension in [-2, 2), found 2"},
      {"const %x: f32[2,3] = splat 0\n%y = reshape(%x, shape=[4])",
       "shape: expected 6 elements as in f32[2,3], found 4 in [4]"},
      {"const %x: f32[2,3] = splat 0\n%y = permute(%x, dims=[0,0])",
       "dims: dimension 0 appears twice"},
      {"const %x: f32[2,3] = splat 0\n%y = slice(%x, dim=1, start=2, end=4)",
       "start, end: expected 0 <= start <= end <= 3, found 2 and 4"},
      {"const %x: f32[2,3] = splat 0\n%y = slice(%x, dim=1, start=0, end=2, step=0)",
       "step: expected a value in [1, 2147483648), found 0"},
      {"const %x: f32[2,3] = splat 0\n%y = gelu(%x, approximate=\"fast\")",
       "approximate: expected one of none, tanh, found 'fast'"},
      {"const %x: f32[1,2,3,3] = splat 0\nconst %w: f32[2,2,4,1] = splat 0\n%y = conv2d(%x, %w)",
       "weight height: expected a window of at most 3 elements, found 4"},
      {"const %x: f32[1,2,3,3] = splat 0\nconst %w: f32[2,1,1,1] = splat 0\n%y = conv2d(%x, %w)",
       "weight: expected 2 input channels / 1 groups in dimension 1, found f32[2,1,1,1]"},
      {"const %x: f32[1,2,3,3] = splat 0\nconst %w: f32[2,2,1,1] = splat 0\n"
       "%y = conv2d(%x, %w, stride=[1])",
       "stride: expected 2 entries, found 1"},
      {"const %x: f32[1,2,3,3] = splat 0\n"
       "%y = max_pool2d(%x, kernel=[2,2], stride=[1,1], padding=[2,0,0,0])",
       "padding: expected less than the kernel's 2x2, found [2,0,0,0]"},
      {"const %x: f32[2,3] = splat 0\n%y = topk(%x, k=4)", "k: expected at most 3, found 4"},
      {"const %x: f32[2,0] = []\n%y = amax(%x, dims=[1])",
       "self: expected dimension 1 not to be empty, found f32[2,0]"},
      {"const %x: i32[2] = [1, 2]\n%y = sum(%x, dims=[0])",
       "self: expected i64 or a floating-point dtype, found i32[2]"},
      {"const %x: i32[2] = [1, 2]\nconst %z: i32[2] = [1, 0]\n%y = floor_divide(%x, %z)",
       "other: integer division by zero"},
      {"const %x: f32[2,3] = splat 0\n%y = pad(%x, before=[0,3], after=[0,0], mode=\"reflect\")",
       "before, after: expected no more than dimension 1 of f32[2,3] allows in mode reflect"},
      {"const %x: f32[2,3] = splat 0\nconst %q: bool[2,2] = splat 1\n"
       "%y = attention(%x, %x, %x, %q, is_causal=true)",
       "mask: expected none with is_causal"},
      {"const %x: f32[2,3] = splat 0\nconst %z: f32[2,4] = splat 0\n%y = concat(%x, %z, dim=0)",
       "tensors[1]: expected f32[2,3] but for dimension 0, found f32[2,4]"},
      {"const %x: f32[2,3] = splat 0\n%y = layer_norm(%x, normalized_shape=[2])",
       "normalized_shape: expected the last dimensions of f32[2,3], found [2]"},
      {"%y = full(size=[1099511627776,1099511627776], value=0, dtype=f32)",
       "are negative or overflow"},
      {"%y = full(size=[1099511627776], value=0, dtype=f32)",
       "needs 4398046511104 bytes, at most 4294967296 are supported"},
      {"%y = arange(start=0, end=4, step=-1)",
       "end: expected an end in the direction of step -1 from 0, found 4"},
  };
  for (const Refusal& r : refusals) {
    SCOPED_TRACE(r.body);
    const std::string message = error(r.body);
    EXPECT_NE(message.find(r.message), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

// --- symbolic sizes

/// The printed type of %y for inputs declared in `body` over s0 in [2, 64].
std::string type_of_y(std::string_view body) {
  const auto graph = parse_graph(
      "graph g {\nsymbol s0 in [2, 64]\n" + std::string(body) + "\nreturn %y\n}", find_op);
  if (!graph.ok()) return graph.status().message();
  return (*graph)->outputs()[0].value->type().str();
}

TEST(SymbolicSizes, FollowThroughShapeOperators) {
  EXPECT_EQ(type_of_y("input %x: f32[1,s0,768]\n%y = reshape(%x, shape=[1,s0,12,64])"),
            "f32[1,s0,12,64]");
  EXPECT_EQ(type_of_y("input %x: f32[1,s0]\n%y = concat(%x, %x, dim=1)"), "f32[1,2*s0]");
  EXPECT_EQ(type_of_y("input %x: f32[1,s0]\n%y = slice(%x, dim=1, start=1, end=s0)"),
            "f32[1,s0 - 1]");
  EXPECT_EQ(type_of_y("%y = arange(start=0, end=s0)"), "i64[s0]");
  EXPECT_EQ(type_of_y("input %x: f32[1,1,s0,s0]\n%y = max_pool2d(%x, kernel=[2,2], stride=[2,2])"),
            "f32[1,1,s0//2,s0//2]");
  EXPECT_EQ(type_of_y("input %x: f32[1,2,s0,8]\nconst %w: f32[4,2,3,3] = splat 0\n"
                      "%y = conv2d(%x, %w, padding=[1,1,1,1])"),
            "f32[1,4,s0,8]");
  EXPECT_NE(type_of_y("input %x: f32[1,s0]\n%y = reshape(%x, shape=[7])").find("expected s0"),
            std::string::npos);
  EXPECT_NE(type_of_y("input %x: f32[s0]\ninput %z: f32[3]\n%y = add(%x, %z)").find("broadcast"),
            std::string::npos);
}

TEST(SymbolicSizes, AreCheckedAgainWhenTheyAreKnown) {
  auto graph = parse_graph(R"(graph g {
    symbol s0 in [2, 64]
    input %x: f32[s0]
    %y = slice(%x, dim=0, start=0, end=5)
    return %y
  })",
                           find_op);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_TRUE(evaluate(**graph, {Tensor(DType::kF32, {5})}).ok());
  const auto short_run = evaluate(**graph, {Tensor(DType::kF32, {4})});
  ASSERT_FALSE(short_run.ok());
  EXPECT_EQ(short_run.status().message(),
            "node y: slice: start, end: expected 0 <= start <= end <= 4, found 0 and 5");
}

TEST(MultiplyAdds, AreCountedAtTheUpperBounds) {
  const auto graph = parse_graph(R"(graph g {
    symbol s0 in [2, 64]
    input %x: f32[1,s0,768]
    const %w: f32[3072,768] = splat 0
    %y = linear(%x, %w)
    input %i: f32[1,32,14,14]
    const %d: f32[32,1,3,3] = splat 0
    %c = conv2d(%i, %d, padding=[1,1,1,1], groups=32)
    return %y, %c
  })",
                                 find_op);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const Node& linear = *(*graph)->first_node();
  EXPECT_EQ(linear.op().multiply_adds(linear), int64_t{64} * 768 * 3072);
  const Node& conv = *linear.next();
  EXPECT_EQ(conv.op().multiply_adds(conv), int64_t{32} * 14 * 14 * 9);
}

TEST(Axes, OfAProjectionKeepRowsApart) {
  const auto graph = parse_graph(R"(graph g {
    input %x: f32[2,5,8]
    const %w: f32[3,8] = splat 0
    %y = linear(%x, %w)
    %r = reshape(%y, shape=[2,1,5,3])
    %p = permute(%r, dims=[0,2,1,3])
    return %p
  })",
                                 find_op);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  using Rows = std::vector<std::vector<int>>;
  const Node& linear = *(*graph)->first_node();
  EXPECT_EQ(linear.op().axes(linear).operand, (Rows{{0, 1, -1}, {2, -1}, {}}));
  const Node& reshape = *linear.next();
  EXPECT_EQ(reshape.op().axes(reshape).operand, (Rows{{0, 2, 3}}));
  const Node& permute = *reshape.next();
  EXPECT_EQ(permute.op().axes(permute).operand, (Rows{{0, 2, 1, 3}}));
}

}  // namespace
}  // namespace downhaul

#include "targets/coreml/placement.h"

#include <gtest/gtest.h>

#include <cstring>

#include "targets/coreml/ane_rules.h"

namespace downhaul::coreml {
namespace {

using mil::DType;

mil::Type tensor(DType dtype, std::vector<std::optional<int64_t>> shape) {
  mil::Type type;
  type.dtype = dtype;
  type.shape = std::move(shape);
  return type;
}

template <typename T>
mil::Value values(DType dtype, const std::vector<T>& list, bool is_scalar = false) {
  mil::Value value;
  value.type = tensor(dtype, {});
  if (!is_scalar) value.type.shape = {static_cast<int64_t>(list.size())};
  std::vector<uint8_t> bytes(list.size() * sizeof(T));
  std::memcpy(bytes.data(), list.data(), bytes.size());
  value.content = std::move(bytes);
  return value;
}

/// Programs by hand: results are named by their numbers.
class Program {
 public:
  explicit Program(std::string opset = "CoreML5") { function_.opset = std::move(opset); }

  std::string input(DType dtype, std::vector<std::optional<int64_t>> shape) {
    const std::string name = "in" + std::to_string(function_.inputs.size());
    function_.inputs.push_back({name, tensor(dtype, std::move(shape))});
    return name;
  }
  std::string constant(DType dtype, std::vector<std::optional<int64_t>> shape) {
    mil::Value value;
    value.type = tensor(dtype, shape);
    value.content = mil::BlobRef{"@model_path/weights/weight.bin", 64};
    return add("const", {}, value.type, std::move(value));
  }
  /// Inputs x, y, …; parameters inline.
  std::string op(const std::string& type, const std::vector<std::string>& operands, DType dtype,
                 std::vector<std::optional<int64_t>> shape,
                 std::vector<std::pair<std::string, mil::Value>> parameters = {}) {
    const bool is_list = type == "concat" || type == "einsum";
    std::vector<mil::Argument> inputs;
    if (is_list) {
      mil::Argument argument{"values", {}};
      for (const std::string& name : operands) argument.bindings.emplace_back(name);
      inputs.push_back(std::move(argument));
    } else {
      const std::vector<std::string> names =
          type == "gather" ? std::vector<std::string>{"x", "indices"}
          : type == "conv" ? std::vector<std::string>{"x", "weight", "bias"}
                           : std::vector<std::string>{"x", "y", "z"};
      for (size_t i = 0; i < operands.size(); ++i) inputs.push_back({names[i], {operands[i]}});
    }
    for (auto& [name, value] : parameters) inputs.push_back({name, {std::move(value)}});
    return add(type, std::move(inputs), tensor(dtype, std::move(shape)));
  }
  void output(const std::string& name) { function_.block.outputs.push_back(name); }
  Placement placement() const { return predict_placement(function_); }

 private:
  std::string add(const std::string& type, std::vector<mil::Argument> inputs, mil::Type result,
                  std::optional<mil::Value> val = std::nullopt) {
    mil::Operation operation;
    operation.type = type;
    operation.inputs = std::move(inputs);
    const std::string name = type + "_" + std::to_string(function_.block.operations.size());
    operation.outputs.push_back({name, std::move(result)});
    if (val) operation.attributes.emplace_back("val", *std::move(val));
    function_.block.operations.push_back(std::move(operation));
    return name;
  }
  mil::Function function_;
};

const PlacedOperation& last(const Placement& p) { return p.operations.back(); }

TEST(Placement, DirectFormOfSequenceClassificationHasFourOperationsOnTheCpu) {
  constexpr auto F = DType::kF16;
  constexpr auto I = DType::kI32;
  Program p;
  const auto ids = p.input(I, {1, 128});
  const auto mask = p.input(I, {1, 128});
  const auto words = p.constant(F, {30522, 768});
  const auto positions = p.constant(F, {512, 768});
  const auto all_ids = p.constant(I, {1, 512});
  const auto position_ids = p.op("slice_by_index", {all_ids}, I, {1, 128});
  const auto word = p.op("gather", {words, ids}, F, {1, 128, 768});
  const auto position = p.op("gather", {positions, position_ids}, F, {1, 128, 768});
  const auto sum = p.op("add", {word, position}, F, {1, 128, 768});
  const auto turned = p.op("transpose", {sum}, F, {1, 768, 128});
  auto x = p.op("expand_dims", {turned}, F, {1, 768, 1, 128});
  const auto one = p.constant(I, {});
  const auto inverse = p.op("sub", {one, mask}, I, {1, 128});
  const auto as_float = p.op("cast", {inverse}, F, {1, 128});
  const auto low = p.constant(F, {});
  const auto scaled = p.op("mul", {as_float, low}, F, {1, 128});
  const auto additive = p.op("expand_dims", {scaled}, F, {1, 128, 1, 1});
  const auto weight = p.constant(F, {768, 768, 1, 1});
  const auto q = p.op("conv", {x, weight}, F, {1, 768, 1, 128});
  const auto k = p.op("transpose", {q}, F, {1, 128, 1, 768});
  const auto scores = p.op("einsum", {k, q}, F, {1, 128, 1, 128});
  const auto masked = p.op("add", {scores, additive}, F, {1, 128, 1, 128});
  const auto weights = p.op("softmax", {masked}, F, {1, 128, 1, 128});
  x = p.op("einsum", {x, weights}, F, {1, 768, 1, 128});
  const auto first = p.op("slice_by_index", {x}, F, {1, 768, 1, 1});
  const auto classifier = p.constant(F, {2, 768, 1, 1});
  const auto logits = p.op("conv", {first, classifier}, F, {1, 2, 1, 1});
  const auto squeezed = p.op("squeeze", {logits}, F, {1, 2});
  p.output(p.op("cast", {squeezed}, DType::kF32, {1, 2}));

  const Placement placed = p.placement();
  EXPECT_EQ(placed.count(ComputeUnit::kCpu), 4);
  EXPECT_EQ(placed.count(ComputeUnit::kCpuOrGpu), 0);
  EXPECT_EQ(placed.count(ComputeUnit::kNeuralEngine),
            static_cast<int>(placed.operations.size()) - 4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(placed.operations[i].rule, 2) << placed.operations[i].name;
    EXPECT_EQ(placed.operations[i].certainty, Certainty::kPublished);
  }
  EXPECT_EQ(placed.num_copies(), 2);
  EXPECT_EQ(placed.num_stranded(), 0);
  EXPECT_EQ(last(placed).rule, 14);
  const std::string text = print(placed);
  EXPECT_NE(text.find("predicted 16 ANE / 20 operations, 4 CPU"), std::string::npos) << text;
  EXPECT_NE(text.find("602 ANE / 606"), std::string::npos);
}

TEST(Placement, IndexArithmeticBeforeALookUpGoesWithIt) {
  Program p;
  const auto ids = p.input(DType::kI32, {1, 8});
  const auto table = p.constant(DType::kF16, {100, 32});
  const auto rows = p.constant(DType::kI32, {});
  const auto wrapped = p.op("add", {ids, rows}, DType::kI32, {1, 8});
  const auto narrow = p.op("cast", {wrapped}, DType::kI16, {1, 8});
  p.output(p.op("gather", {table, narrow}, DType::kF16, {1, 8, 32}));
  EXPECT_EQ(p.placement().count(ComputeUnit::kCpu), 3);
}

TEST(Placement, AGatherFromWhatIsComputedIsNoEmbedding) {
  Program p;
  const auto x = p.input(DType::kF16, {100, 32});
  const auto ids = p.input(DType::kI32, {8});
  p.output(p.op("gather", {x, ids}, DType::kF16, {8, 32}));
  EXPECT_NE(last(p.placement()).rule, 2);
}

struct RuleCase {
  const char* what;
  std::string type;
  std::vector<std::optional<int64_t>> shape;
  std::vector<std::pair<std::string, mil::Value>> parameters;
  DType dtype;
  ComputeUnit unit;
  int rule;
};

TEST(Placement, EveryRuleIsReached) {
  const auto ints = [](std::vector<int32_t> list) { return values(DType::kI32, list); };
  const auto boolean = [](bool on) {
    return values(DType::kBool, std::vector<uint8_t>{static_cast<uint8_t>(on)}, true);
  };
  const auto real = [](float v) { return values(DType::kF32, std::vector<float>{v}, true); };
  constexpr auto F = DType::kF16;
  const RuleCase cases[] = {
      {"f32", "mul", {1, 8, 1, 64}, {}, DType::kF32, ComputeUnit::kCpuOrGpu, 1},
      {"mask arithmetic", "sub", {1, 64}, {}, DType::kI32, ComputeUnit::kNeuralEngine, 3},
      {"conv", "conv", {1, 8, 32, 32}, {}, F, ComputeUnit::kNeuralEngine, 4},
      {"strided conv",
       "conv",
       {1, 8, 32, 32},
       {{"strides", ints({2, 2})}},
       F,
       ComputeUnit::kNeuralEngine,
       4},
      {"stride 4",
       "conv",
       {1, 8, 32, 32},
       {{"strides", ints({4, 4})}},
       F,
       ComputeUnit::kNeuralEngine,
       0},
      {"dilated conv",
       "conv",
       {1, 8, 32, 32},
       {{"dilations", ints({2, 2})}},
       F,
       ComputeUnit::kCpuOrGpu,
       5},
      {"softmax", "softmax", {1, 64, 1, 64}, {}, F, ComputeUnit::kNeuralEngine, 6},
      {"rank 6", "mul", {1, 1, 2, 2, 2, 64}, {}, F, ComputeUnit::kCpuOrGpu, 7},
      {"open size", "mul", {1, std::nullopt, 1, 64}, {}, F, ComputeUnit::kCpuOrGpu, 7},
      {"huge", "conv", {1, 30522, 1, 64}, {}, F, ComputeUnit::kCpuOrGpu, 8},
      {"topk", "topk", {1, 64}, {}, F, ComputeUnit::kCpu, 9},
      {"recurrent", "lstm", {1, 64}, {}, F, ComputeUnit::kCpu, 9},
      {"aligned corners", "upsample_bilinear", {1, 8, 64, 64}, {}, F, ComputeUnit::kCpuOrGpu, 10},
      {"twice",
       "upsample_bilinear",
       {1, 8, 64, 64},
       {{"align_corners", boolean(false)}, {"scale_factor_height", real(2)}},
       F,
       ComputeUnit::kNeuralEngine,
       0},
      {"by 2.5",
       "upsample_bilinear",
       {1, 8, 80, 80},
       {{"align_corners", boolean(false)}, {"scale_factor_height", real(2.5f)}},
       F,
       ComputeUnit::kCpuOrGpu,
       10},
      {"unknown", "erf", {1, 64}, {}, F, ComputeUnit::kNeuralEngine, 0},
  };
  for (const RuleCase& c : cases) {
    Program p;
    const auto x = p.input(c.dtype, {1, 8, 32, 32});
    const auto w = p.constant(c.dtype, {8, 8, 1, 1});
    const auto y = p.op(c.type, {x, w}, c.dtype, c.shape, c.parameters);
    p.output(p.op("relu", {y}, c.dtype, c.shape));
    const PlacedOperation found = p.placement().operations[0];
    EXPECT_EQ(found.rule, c.rule) << c.what;
    EXPECT_EQ(found.unit, c.unit) << c.what;
  }
}

TEST(Placement, TheBordersOfAProgramCostNothing) {
  Program p;
  const auto x = p.input(DType::kF32, {1, 8, 1, 64});
  const auto half = p.op("cast", {x}, DType::kF16, {1, 8, 1, 64});
  const auto y = p.op("relu", {half}, DType::kF16, {1, 8, 1, 64});
  const auto thin = p.op("squeeze", {y}, DType::kF16, {1, 8, 64});
  p.output(p.op("cast", {thin}, DType::kF32, {1, 8, 64}));
  const Placement placed = p.placement();
  EXPECT_EQ(placed.count(ComputeUnit::kNeuralEngine), 4);
  EXPECT_EQ(placed.operations[0].rule, 3);
  EXPECT_EQ(placed.operations[2].rule, 14);
  EXPECT_EQ(placed.operations[3].rule, 14);
}

TEST(Placement, CountsThePaddingOfTheLastAxis) {
  Program p;
  const auto x = p.input(DType::kF16, {1, 768, 1, 128});
  const auto full = p.op("relu", {x}, DType::kF16, {1, 768, 1, 128});
  const auto one = p.op("reduce_mean", {full}, DType::kF16, {1, 768, 1, 1});
  p.output(p.op("tanh", {one}, DType::kF16, {1, 768, 1, 33}));
  const Placement placed = p.placement();
  EXPECT_EQ(placed.operations[0].wasted_bytes, 0u);
  EXPECT_EQ(placed.operations[1].wasted_bytes, 768u * 62) << "one element of 2 bytes takes 64";
  EXPECT_EQ(placed.operations[2].wasted_bytes, 768u * 62) << "66 bytes take 128";
  EXPECT_EQ(placed.wasted_bytes(), 2 * 768u * 62);
}

TEST(Placement, NamesSmallGroupsBetweenOperationsOnTheCpu) {
  Program p;
  const auto x = p.input(DType::kF16, {1, 8, 64, 64});
  const auto a = p.op("topk", {x}, DType::kF16, {1, 8, 64, 64});
  const auto b = p.op("relu", {a}, DType::kF16, {1, 8, 64, 64});
  const auto c = p.op("topk", {b}, DType::kF16, {1, 8, 64, 64});
  p.output(p.op("relu", {c}, DType::kF16, {1, 8, 64, 64}));
  const Placement placed = p.placement();
  EXPECT_EQ(placed.num_stranded(), 1);
  EXPECT_TRUE(placed.operations[1].is_stranded);
  EXPECT_NE(print(placed).find("rule 12"), std::string::npos);
}

TEST(Placement, SaysThatATinyProgramStaysOnTheCpu) {
  Program p;
  const auto x = p.input(DType::kF16, {4, 4});
  p.output(p.op("matmul", {x, x}, DType::kF16, {4, 4}));
  ASSERT_EQ(p.placement().notes.size(), 1u);
  EXPECT_NE(p.placement().notes[0].find("rule 11"), std::string::npos);
}

TEST(Placement, LooksIntoNestedBlocksAndSurvivesNamesThatNothingDefines) {
  mil::Function f;
  mil::Operation inner;
  inner.type = "relu";
  inner.inputs.push_back({"x", {std::string("nowhere")}});
  inner.outputs.push_back({"r", tensor(DType::kF16, {1, 64})});
  mil::Operation outer;
  outer.type = "cond";
  outer.outputs.push_back({"c", tensor(DType::kF16, {1, 64})});
  outer.blocks.emplace_back();
  outer.blocks[0].operations.push_back(inner);
  f.block.operations.push_back(outer);
  mil::Operation without_result;
  without_result.type = "relu";
  f.block.operations.push_back(without_result);
  const Placement placed = predict_placement(f);
  ASSERT_EQ(placed.operations.size(), 3u);
  EXPECT_EQ(placed.operations[0].unit, ComputeUnit::kCpu);
  EXPECT_EQ(placed.operations[1].unit, ComputeUnit::kNeuralEngine);
}

TEST(Placement, JsonSaysThatItIsAPrediction) {
  Program p;
  const auto x = p.input(DType::kF16, {1, 8, 64, 64});
  p.output(p.op("relu", {x}, DType::kF16, {1, 8, 64, 64}));
  JsonWriter json;
  write_json(p.placement(), json);
  const std::string text = json.take();
  const auto parsed = JsonValue::parse(text);
  ASSERT_TRUE(parsed.ok()) << text;
  EXPECT_NE(text.find("\"predicted\": true"), std::string::npos) << text;
  EXPECT_NE(text.find("\"ane\": 602"), std::string::npos) << text;
}

}  // namespace
}  // namespace downhaul::coreml

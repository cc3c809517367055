// Each row of the dialect: IR → payload bytes → IR gives the same values.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/strings.h"
#include "dialects/xnn/emit.h"
#include "dialects/xnn/one_to_one.h"
#include "dialects/xnn/raise.h"
#include "dialects/xnn/spelling.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

std::unique_ptr<Graph> parse(const std::string& body) {
  auto graph = parse_graph("graph test {\n" + body + "}\n", find_op);
  EXPECT_TRUE(graph.ok()) << graph.status().message() << "\n" << body;
  return graph.ok() ? *std::move(graph) : nullptr;
}

Tensor random_tensor(const Sizes& sizes, std::mt19937& random) {
  Tensor t(DType::kF32, sizes);
  std::uniform_real_distribution<float> distribution(-2, 2);
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, distribution(random));
  return t;
}

std::vector<Tensor> random_inputs(const Graph& graph, const Bindings& bindings = {}) {
  std::mt19937 random(3);
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    inputs.push_back(random_tensor(*eval_sizes(input->shape(), bindings), random));
  }
  return inputs;
}

struct Payload {
  XnnPayload payload;
  std::vector<uint8_t> bytes;
  XnnGraph read;
};

/// The whole graph as one payload, written and read again.
Result<Payload> to_payload(const Graph& graph) {
  std::vector<Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  std::vector<Value*> outputs;
  for (const Output& output : graph.outputs()) outputs.push_back(output.value);
  Payload result;
  DH_ASSIGN(result.payload, emit_xnn_payload(nodes, graph.inputs(), outputs));
  DH_ASSIGN(result.bytes, write_xnn_payload(result.payload.graph));
  const auto lookup = [&](std::string_view key) -> std::optional<Bytes> {
    for (const XnnNamedTensor& named : result.payload.named) {
      if (named.key == key) return named.data.bytes();
    }
    return std::nullopt;
  };
  DH_ASSIGN(result.read, read_xnn_payload(result.bytes, lookup));
  return result;
}

Result<std::unique_ptr<Graph>> raise(const Payload& payload, const Graph& original) {
  auto graph = std::make_unique<Graph>();
  std::vector<Value*> inputs;
  for (const Value* input : original.inputs()) {
    inputs.push_back(graph->add_input(input->name(), input->type()));
  }
  const XnnTensorLookup lookup = [&](std::string_view key) -> std::optional<Tensor> {
    for (const XnnNamedTensor& named : payload.payload.named) {
      if (named.key != key) continue;
      return Tensor(DType::kU8, {static_cast<int64_t>(named.data.num_bytes())},
                    named.data.storage(), named.data.byte_offset());
    }
    return std::nullopt;
  };
  Builder b(*graph, nullptr);
  DH_ASSIGN(const std::vector<Value*> outputs, raise_xnn_payload(payload.read, lookup, inputs, b));
  for (Value* output : outputs) graph->add_output(output, output->name());
  DH_TRY(verify(*graph));
  return graph;
}

/// Largest difference relative to 1 + |expected|.
double difference(const Tensor& expected, const Tensor& found) {
  EXPECT_EQ(describe(expected), describe(found));
  if (expected.num_elements() != found.num_elements()) return INFINITY;
  double worst = 0;
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const double e = expected.at(i);
    const double f = found.at(i);
    if (e == f || (std::isnan(e) && std::isnan(f))) continue;
    worst = std::max(worst, std::abs(e - f) / (1 + std::abs(e)));
  }
  return worst;
}

void expect_round_trip(const std::string& body, const Bindings& bindings = {}) {
  const auto graph = parse(body);
  ASSERT_NE(graph, nullptr);
  const auto payload = to_payload(*graph);
  ASSERT_TRUE(payload.ok()) << payload.status().message() << "\n" << body;
  const auto raised = raise(*payload, *graph);
  ASSERT_TRUE(raised.ok()) << raised.status().message() << "\n" << body;
  const std::vector<Tensor> inputs = random_inputs(*graph, bindings);
  const auto expected = evaluate(*graph, inputs);
  const auto found = evaluate(**raised, inputs);
  ASSERT_TRUE(expected.ok()) << expected.status().message();
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(expected->size(), found->size());
  for (size_t i = 0; i < expected->size(); ++i) {
    // The same kernels on the same numbers: only attributes that went through f32 may round.
    EXPECT_LE(difference((*expected)[i], (*found)[i]), 1e-6) << print(**raised);
  }
}

TEST(XnnDialect, EveryOneToOneRowMakesTheRoundTrip) {
  for (const xnn::OneToOneRow& row : xnn::one_to_one_rows()) {
    SCOPED_TRACE(row.text->ir);
    std::string body;
    std::string call = cat("%y = ", row.op->name, "(");
    for (size_t i = 0; i < row.ir_operands.size(); ++i) {
      const std::string& name = row.ir_operands[i];
      if (body.find("%" + name + ":") == std::string::npos) {
        body += cat("  input %", name, ": f32[", name == "weight" ? "3" : "2,3", "]\n");
      }
      call += cat(i == 0 ? "%" : ", %", name);
    }
    for (const auto& literal : row.literals) {
      call += cat(", ", literal.attr, "=",
                  literal.value == "last" ? "1" : cat("\"", literal.value, "\""));
    }
    if (!row.alpha.empty()) call += cat(", ", row.alpha, "=0.3");
    expect_round_trip(cat(body, "  ", call, ")\n  return %y\n"));
  }
}

// One case for each row of functions, and the corners of each.
const std::map<std::string, std::vector<const char*>> kFunctionCases = {
    {"linear",
     {"input %x: f32[2,3]\n const %w: f32[4,3] = random 1\n %y = linear(%x, %w)\n return %y\n",
      "input %x: f32[2,2,3]\n const %w: f32[3,4] = random 1\n const %b: f32[4] = random 2\n"
      "%y = linear(%x, %w, %b, weight_transposed=true)\n return %y\n"}},
    {"matmul",
     {"input %x: f32[2,3,4]\n input %z: f32[2,4,5]\n %y = matmul(%x, %z)\n return %y\n",
      "input %x: f32[2,2,3,4]\n input %z: f32[2,2,5,4]\n"
      "%y = matmul(%x, %z, transpose_other=true)\n return %y\n"}},
    {"conv2d",
     {"input %x: f32[1,5,6,4]\n const %w: f32[6,4,3,2] = random 1\n const %b: f32[6] = random 2\n"
      "%y = conv2d(%x, %w, %b, stride=[2,1], padding=[1,0,2,1], layout=\"nhwc\")\n return %y\n",
      "input %x: f32[2,5,6,4]\n const %w: f32[6,2,3,3] = random 1\n"
      "%y = conv2d(%x, %w, dilation=[2,1], groups=2, layout=\"nhwc\")\n return %y\n",
      "input %x: f32[1,5,6,4]\n const %w: f32[8,1,3,3] = random 1\n const %b: f32[8] = random 2\n"
      "%y = conv2d(%x, %w, %b, padding=[1,1,1,1], groups=4, layout=\"nhwc\")\n return %y\n",
      "input %x: f32[1,2,2,3]\n const %w: f32[400,3,1,1] = random 1\n"
      "%y = conv2d(%x, %w, layout=\"nhwc\")\n return %y\n"}},
    {"conv_transpose2d",
     {"input %x: f32[1,3,4,4]\n const %w: f32[4,3,3,2] = random 1\n const %b: f32[6] = random 2\n"
      "%y = conv_transpose2d(%x, %w, %b, stride=[2,2], padding=[1,0,1,0], output_padding=[1,0],"
      " groups=2, layout=\"nhwc\")\n return %y\n"}},
    {"max_pool2d",
     {"input %x: f32[1,7,8,2]\n %y = max_pool2d(%x, kernel=[3,2], stride=[2,2], "
      "padding=[1,0,1,0], layout=\"nhwc\")\n return %y\n",
      "input %x: f32[1,6,6,2]\n %y = max_pool2d(%x, kernel=[3,3], stride=[2,2], "
      "ceil_mode=true, layout=\"nhwc\")\n return %y\n",
      "input %x: f32[1,7,8,2]\n %y = max_pool2d(%x, kernel=[2,2], stride=[1,1], "
      "dilation=[2,3], layout=\"nhwc\")\n return %y\n"}},
    {"avg_pool2d",
     {"input %x: f32[1,6,6,2]\n %y = avg_pool2d(%x, kernel=[2,3], stride=[2,3], "
      "layout=\"nhwc\")\n return %y\n",
      "input %x: f32[1,6,6,2]\n %y = avg_pool2d(%x, kernel=[3,3], stride=[2,2], "
      "padding=[1,1,1,1], count_include_pad=false, layout=\"nhwc\")\n return %y\n",
      "input %x: f32[1,6,6,2]\n %y = avg_pool2d(%x, kernel=[3,3], stride=[2,2], "
      "ceil_mode=true, layout=\"nhwc\")\n return %y\n"}},
    {"adaptive_avg_pool2d",
     {"input %x: f32[2,3,4,5]\n %y = adaptive_avg_pool2d(%x, output_size=[1,1], "
      "layout=\"nhwc\")\n return %y\n"}},
    {"upsample_bilinear2d",
     {"input %x: f32[1,2,3,2]\n %y = upsample_bilinear2d(%x, output_size=[4,9], "
      "layout=\"nhwc\")\n return %y\n",
      "input %x: f32[1,2,3,2]\n %y = upsample_bilinear2d(%x, output_size=[4,9], "
      "align_corners=true, layout=\"nhwc\")\n return %y\n",
      "input %x: f32[1,2,3,2]\n %y = upsample_bilinear2d(%x, output_size=[4,9], "
      "scale_h=2.0, scale_w=3.0, layout=\"nhwc\")\n return %y\n"}},
    {"clamp",
     {"input %x: f32[8]\n %y = clamp(%x, min=0.5, max=1.0)\n return %y\n",
      "input %x: f32[8]\n %y = clamp(%x, min=0.0)\n return %y\n"}},
    {"reshape", {"input %x: f32[2,3,4]\n %y = reshape(%x, shape=[6,4])\n return %y\n"}},
    {"permute", {"input %x: f32[2,3,4]\n %y = permute(%x, dims=[2,0,1])\n return %y\n"}},
    {"slice", {"input %x: f32[2,6,4]\n %y = slice(%x, dim=1, start=1, end=4)\n return %y\n"}},
    {"concat",
     {"input %x: f32[2,3]\n input %z: f32[2,1]\n %y = concat(%x, %z, dim=1)\n return %y\n",
      "input %x: f32[2,3]\n %y = concat(%x, %x, %x, %x, %x, dim=0)\n return %y\n",
      "input %x: f32[2,3]\n %y = concat(%x, %x, %x, dim=0)\n return %y\n",
      "input %x: f32[2,3]\n %y = concat(%x, %x, %x, %x, dim=0)\n return %y\n"}},
    {"pad",
     {"input %x: f32[2,3]\n %y = pad(%x, before=[1,0], after=[0,2], value=0.5)\n return %y\n"}},
};

TEST(XnnDialect, EveryFunctionMakesTheRoundTrip) {
  for (const xnn::Functions& row : xnn::functions_table()) {
    SCOPED_TRACE(row.op->name);
    const auto cases = kFunctionCases.find(row.op->name);
    ASSERT_NE(cases, kFunctionCases.end());
    for (const char* body : cases->second) expect_round_trip(body);
  }
}

TEST(XnnDialect, EveryNodeTheRuntimeReadsCanBeRaised) {
  for (const XnnNodeInfo& node : kXnnNodeTable) {
    // An index of a pooling window has no operator.
    if (!node.runnable || node.kind == XnnNodeKind::kArgMaxPooling2d) continue;
    bool found = false;
    for (const auto& row : xnn::one_to_one_rows()) found |= row.kind == node.kind;
    for (const auto& row : xnn::raise_table()) found |= row.kind == node.kind;
    EXPECT_TRUE(found) << node.name;
  }
}

TEST(XnnDialect, BoundedSizesStayOpenInReshapeAndSlice) {
  const char* body =
      "symbol s in [1, 8]\n input %x: f32[1,s,6]\n"
      "%h = reshape(%x, shape=[1,s,2,3])\n %p = permute(%h, dims=[0,2,1,3])\n"
      "%y = slice(%p, dim=3, start=1, end=3)\n return %y\n";
  for (int64_t s : {1, 5, 8}) expect_round_trip(body, {{"s", s}});
  const auto payload = to_payload(*parse(body));
  ASSERT_TRUE(payload.ok());
  const auto& reshape = std::get<XnnReshape>(payload->read.nodes[0].params);
  EXPECT_EQ(reshape.new_shape, (std::vector<uint32_t>{1, 0, 2, 3}));
  const auto& slice = std::get<XnnSlice>(payload->read.nodes[2].params);
  EXPECT_EQ(slice.sizes, (std::vector<uint32_t>{1, 2, 0, 2}));
}

TEST(XnnDialect, ClampIsFusedWhenNothingElseReadsItsOperand) {
  const auto fused = to_payload(
      *parse("input %x: f32[1,1,2,1]\n const %w: f32[1,1,1,1] = splat 1\n"
             "%c = conv2d(%x, %w, layout=\"nhwc\")\n %y = clamp(%c, min=0.0)\n return %y\n"));
  ASSERT_TRUE(fused.ok());
  ASSERT_EQ(fused->read.nodes.size(), 1u);
  EXPECT_EQ(fused->read.nodes[0].output_min, 0);
  EXPECT_EQ(fused->read.nodes[0].output_max, INFINITY);
}

TEST(XnnDialect, ClampOfAValueWithASecondUserStaysApart) {
  const auto graph = parse(
      "input %x: f32[1,1,2,1]\n const %w: f32[1,1,1,1] = splat 1\n"
      "%c = conv2d(%x, %w, layout=\"nhwc\")\n %r = clamp(%c, min=0.0)\n %y = add(%r, %c)\n"
      "return %y\n");
  const auto payload = to_payload(*graph);
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(payload->read.nodes.size(), 3u);
  const auto raised = raise(*payload, *graph);
  ASSERT_TRUE(raised.ok()) << raised.status().message();
  const auto y = evaluate(**raised, {Tensor::from<float>({1, 1, 2, 1}, std::vector{-2.0f, 3.0f})});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ((*y)[0].at(0), -2);
  EXPECT_EQ((*y)[0].at(1), 6);
}

TEST(XnnDialect, SquaresHaveNoRange) {
  const auto payload = to_payload(
      *parse("input %x: f32[2]\n %s = mul(%x, %x)\n %y = clamp(%s, max=1.0)\n return %y\n"));
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(payload->read.nodes.size(), 2u);
}

TEST(XnnDialect, WeightsKeepTheirBytesAndTheirName) {
  const auto graph = parse(
      "input %x: f32[1,2,2,32]\n const %fc: f32[64,32] = random 1\n"
      "const %conv: f32[64,64,1,1] = random 2\n %h = linear(%x, %fc)\n"
      "%y = conv2d(%h, %conv, layout=\"nhwc\")\n return %y\n");
  const auto payload = to_payload(*graph);
  ASSERT_TRUE(payload.ok());
  ASSERT_EQ(payload->payload.named.size(), 2u);
  for (const char* name : {"fc", "conv"}) {
    const Tensor& original = graph->find_value(name)->constant();
    bool found = false;
    for (const XnnNamedTensor& named : payload->payload.named) {
      if (named.key != name) continue;
      found = true;
      EXPECT_EQ(named.data.bytes().data(), original.bytes().data());
    }
    EXPECT_TRUE(found) << name;
  }
}

TEST(XnnDialect, AConstantThatIsPackedAndReadIsTwoValuesOfOneName) {
  // The runtime releases the bytes of a value that it packed.
  const auto graph = parse(
      "input %x: f32[3,2]\n const %w: f32[2,2] = random 1\n const %b: f32[2] = random 2\n"
      "%l = linear(%x, %w, %b)\n %m = linear(%l, %w, %b)\n %a = add(%m, %b)\n"
      "%s = slice(%a, dim=0, start=0, end=2)\n %y = mul(%s, %w)\n return %y\n");
  const auto payload = to_payload(*graph);
  ASSERT_TRUE(payload.ok()) << payload.status().message();
  EXPECT_EQ(payload->payload.named.size(), 2u);
  std::map<std::string, std::set<uint32_t>> packed, read;
  const XnnGraph& xnn = payload->payload.graph;
  for (const XnnNode& node : xnn.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const XnnValue& value = xnn.values[node.inputs[i]];
      if (value.constant == 0) continue;
      const bool packs = node.kind == XnnNodeKind::kFullyConnected;
      (packs ? packed : read)[xnn.constants[value.constant].named_key].insert(node.inputs[i]);
    }
  }
  for (const char* name : {"w", "b"}) {
    ASSERT_EQ(packed[name].size(), 1u) << name;
    ASSERT_EQ(read[name].size(), 1u) << name;
    EXPECT_NE(packed[name], read[name]) << name;
  }
}

TEST(XnnDialect, RefusalsSayWhy) {
  const std::map<std::string, std::string> reasons = {
      {"input %x: f16[2]\n %y = abs(%x)\n return %y\n", "f16 values do not go into a delegate"},
      {"input %x: f32[2]\n %y = erf(%x)\n return %y\n", "XNNPACK has no node for erf"},
      {"input %x: f32[2,2]\n %y = softmax(%x, dim=0)\n return %y\n",
       "the runtime's softmax takes the last axis"},
      {"input %x: f32[2]\n %y = gelu(%x, approximate=\"tanh\")\n return %y\n",
       "the runtime's gelu is the erf form"},
      {"input %x: f32[1,1,1,1,1,1,2]\n %y = abs(%x)\n return %y\n", "rank 7 is above 6"},
      {"input %x: f32[4]\n %y = slice(%x, dim=0, start=0, end=4, step=2)\n return %y\n",
       "a slice with a step"},
      {"input %x: f32[]\n %y = abs(%x)\n return %y\n", "a computed scalar"},
      {"symbol a in [1, 4]\n symbol b in [1, 4]\n input %x: f32[a,b,6]\n"
       "%y = reshape(%x, shape=[a,b,2,3])\n return %y\n",
       "a reshape to more than one dynamic size"},
      {"input %x: f32[1,2,3,2]\n %y = upsample_bilinear2d(%x, output_size=[4,6], scale_h=2.4, "
       "scale_w=2.0, layout=\"nhwc\")\n return %y\n",
       "a resize by 2.4 that is not its sizes' ratio"},
      {"input %x: f32[1,2,4,4]\n %y = max_pool2d(%x, kernel=[2,2], stride=[2,2])\n return %y\n",
       "images must be NHWC inside a delegate"},
      {"input %x: f32[1,4,4,2]\n %y = avg_pool2d(%x, kernel=[3,3], stride=[1,1], "
       "padding=[1,1,1,1], layout=\"nhwc\")\n return %y\n",
       "an average pooling that counts its padding"},
  };
  for (const auto& [body, reason] : reasons) {
    const auto graph = parse(body);
    ASSERT_NE(graph, nullptr);
    EXPECT_EQ(xnn_refusal(*graph->first_node()), reason) << body;
    EXPECT_FALSE(to_payload(*graph).ok()) << body;
  }
}

// --- payloads that other writers make

XnnGraph one_node(XnnNode node, std::vector<XnnValue> values) {
  XnnGraph graph;
  graph.values = std::move(values);
  graph.nodes = {std::move(node)};
  graph.values.front().flags = XnnValue::kExternalInput;
  graph.values.front().external_id = 0;
  graph.values.back().flags = XnnValue::kExternalOutput;
  graph.values.back().external_id = 1;
  graph.input_ids = {0};
  graph.output_ids = {static_cast<uint32_t>(graph.values.size() - 1)};
  return graph;
}

Result<Tensor> run(const XnnGraph& payload, const Tensor& input) {
  DH_TRY(verify_xnn_graph(payload));
  Graph graph;
  Value* x = graph.add_input("x", type_of(input));
  Builder b(graph, nullptr);
  const XnnTensorLookup nothing = [](std::string_view) { return std::nullopt; };
  DH_ASSIGN(const std::vector<Value*> y, raise_xnn_payload(payload, nothing, {x}, b));
  graph.add_output(y[0], "y");
  DH_ASSIGN(std::vector<Tensor> results, evaluate(graph, {input}));
  return results[0];
}

TEST(XnnRaise, DynamicallyQuantizedLinearsAreFloatOnTheDequantizedWeight) {
  const std::vector<int8_t> weight = {1, 2, 3, -4};
  XnnGraph graph;
  graph.values.resize(5);
  graph.values[0].dims = {1, 2};
  graph.values[1].dims = {1, 2};
  graph.values[1].datatype = XnnDatatype::kQDInt8;
  graph.values[1].quant = XnnPerTokenDynamic{1};
  graph.values[2].dims = {2, 2};
  graph.values[2].datatype = XnnDatatype::kQCInt8;
  graph.values[2].quant = XnnPerChannel{{0.5f, 2.0f}, 0, 0, 0};
  graph.values[2].constant = 1;
  graph.values[3].dims = {1, 2};
  graph.constants.push_back(
      {"", 4, Bytes(reinterpret_cast<const uint8_t*>(weight.data()), weight.size())});
  graph.values.pop_back();
  graph.values[0].flags = XnnValue::kExternalInput;
  graph.values[0].external_id = 0;
  graph.values[3].flags = XnnValue::kExternalOutput;
  graph.values[3].external_id = 1;
  graph.input_ids = {0};
  graph.output_ids = {3};
  XnnNode convert;
  convert.kind = XnnNodeKind::kConvert;
  convert.inputs = {0};
  convert.outputs = {1};
  XnnNode linear;
  linear.kind = XnnNodeKind::kFullyConnected;
  linear.inputs = {1, 2, kXnnNoId};
  linear.outputs = {3};
  graph.nodes = {convert, linear};
  const auto y = run(graph, Tensor::from<float>({1, 2}, std::vector{10.0f, 1.0f}));
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(y->at(0), 10 * 0.5 + 1 * 1.0);
  EXPECT_EQ(y->at(1), 10 * 6.0 + 1 * -8.0);
}

TEST(XnnRaise, QuantizedValuesRoundToTheirStep) {
  XnnNode convert;
  convert.kind = XnnNodeKind::kConvert;
  convert.inputs = {0};
  convert.outputs = {1};
  XnnValue x;
  x.dims = {3};
  XnnValue q = x;
  q.datatype = XnnDatatype::kQInt8;
  q.quant = XnnPerTensor{0.5f, 3};
  const auto y =
      run(one_node(convert, {x, q}), Tensor::from<float>({3}, std::vector{0.6f, -1.1f, 100.0f}));
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(y->at(0), 0.5);
  EXPECT_EQ(y->at(1), -1);
  EXPECT_EQ(y->at(2), (127 - 3) * 0.5);
}

TEST(XnnRaise, BlockwiseFourBitWeightsTakeTheirBlocksScale) {
  // Row 0: 32 times 1 then 32 times 2; scales 0.5 and 4 (bf16 halves of f32).
  std::vector<uint8_t> weight(32);
  for (size_t i = 0; i < 32; ++i) weight[i] = i < 16 ? 0x99 : 0xaa;
  const std::vector<uint16_t> scales = {float_to_bf16(0.5f), float_to_bf16(4.0f)};
  XnnValue x;
  x.dims = {1, 64};
  XnnValue w;
  w.dims = {1, 64};
  w.datatype = XnnDatatype::kQBInt4;
  w.quant = XnnPerChannelGroup{{}, 0, 32, 2, 2};
  w.constant = 1;
  XnnValue y;
  y.dims = {1, 1};
  XnnNode linear;
  linear.kind = XnnNodeKind::kFullyConnected;
  linear.inputs = {0, 1, kXnnNoId};
  linear.outputs = {2};
  XnnGraph graph = one_node(linear, {x, w, y});
  graph.constants.push_back({"", weight.size(), Bytes(weight.data(), weight.size())});
  graph.constants.push_back({"", 4, Bytes(reinterpret_cast<const uint8_t*>(scales.data()), 4)});
  Tensor ones(DType::kF32, {1, 64});
  for (int64_t i = 0; i < 64; ++i) ones.set(i, 1);
  const auto result = run(graph, ones);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->at(0), 32 * 0.5 + 32 * 8.0);
}

TEST(XnnRaise, UnreadableNodesAreRefusedByName) {
  XnnNode pool;
  pool.kind = XnnNodeKind::kArgMaxPooling2d;
  pool.inputs = {0};
  pool.outputs = {1, 2};
  XnnPool window;
  window.pooling_height = window.pooling_width = 2;
  pool.params = window;
  XnnValue x;
  x.dims = {1, 2, 2, 1};
  XnnValue y;
  y.dims = {1, 1, 1, 1};
  const auto result = run(one_node(pool, {x, y, y}), Tensor(DType::kF32, {1, 2, 2, 1}));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().kind(), ErrorKind::kUnsupported);
  EXPECT_NE(result.status().message().find("XNNArgMaxPooling2d"), std::string::npos);
}

}  // namespace
}  // namespace downhaul

#include "formats/xnn/xnn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "base/strings.h"
#include "formats/pte/example_programs.h"

namespace downhaul {
namespace {

bool same_graph(const XnnGraph& a, const XnnGraph& b) {
  return a.values == b.values && a.nodes == b.nodes && a.input_ids == b.input_ids &&
         a.output_ids == b.output_ids &&
         std::ranges::equal(a.constants, b.constants, [](const auto& x, const auto& y) {
           return x.named_key == y.named_key && x.size == y.size &&
                  std::ranges::equal(x.data, y.data);
         });
}

TEST(XnnNodeTable, NamesAreFoundAgain) {
  for (const XnnNodeInfo& row : kXnnNodeTable) {
    EXPECT_EQ(parse_xnn_node_kind(row.name), row.kind);
    EXPECT_EQ(&info(row.kind), &row);
  }
  EXPECT_FALSE(parse_xnn_node_kind("XNNFoo").has_value());
}

TEST(XnnConstantBytes, PadsRowsOfFourBitValues) {
  XnnValue v{.datatype = XnnDatatype::kQCInt4, .dims = {3, 5}};
  EXPECT_EQ(xnn_constant_bytes(v), 9u);
  v.datatype = XnnDatatype::kBf16;
  EXPECT_EQ(xnn_constant_bytes(v), 30u);
  v.datatype = XnnDatatype::kQDInt8;
  EXPECT_FALSE(xnn_constant_bytes(v).has_value());
  v = {.datatype = XnnDatatype::kFp32, .dims = {1u << 31, 1u << 31, 8}};
  EXPECT_FALSE(xnn_constant_bytes(v).has_value());
}

// ---- random graphs: one node of each runnable kind, in random order, on values of rank 4 ----

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {}

  XnnGraph make() {
    add_input();
    add_input();
    std::vector<XnnNodeKind> kinds;
    for (const XnnNodeInfo& row : kXnnNodeTable) {
      if (row.runnable) kinds.push_back(row.kind);
    }
    std::shuffle(kinds.begin(), kinds.end(), random_);
    for (const XnnNodeKind kind : kinds) add_node(kind);
    const uint32_t first_output = static_cast<uint32_t>(graph_.input_ids.size());
    for (uint32_t i = 0; i < 3; ++i) {
      const uint32_t id = graph_.nodes[i].outputs[0];
      graph_.values[id].flags = XnnValue::kExternalOutput;
      graph_.values[id].external_id = first_output + i;
      graph_.output_ids.push_back(id);
    }
    return graph_;
  }

 private:
  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  uint32_t add_value(XnnValue value) {
    graph_.values.push_back(std::move(value));
    return static_cast<uint32_t>(graph_.values.size() - 1);
  }

  void add_input() {
    const auto external = static_cast<uint32_t>(graph_.input_ids.size());
    const uint32_t id =
        add_value(examples::external({1, 4, 4, 8}, external, XnnValue::kExternalInput));
    graph_.input_ids.push_back(id);
    ready_.push_back(id);
  }

  uint32_t add_constant_bytes(uint64_t size, bool scales) {
    // Both halves are a good bf16, so the bytes serve as scales of either width.
    static const std::vector<float> kScales(4096, std::bit_cast<float>(0x3e003e00u));
    static const std::vector<float> kNumbers(4096, -3.5F);
    const auto& numbers = scales ? kScales : kNumbers;
    XnnConstant c{.named_key = {}, .size = size, .data = {}};
    if (pick(2) == 1) {
      c.named_key = cat("key", graph_.constants.size());
    } else {
      c.data = {reinterpret_cast<const uint8_t*>(numbers.data()), size};
    }
    graph_.constants.push_back(c);
    return static_cast<uint32_t>(graph_.constants.size() - 1);
  }

  // A constant of any datatype that one may have.
  uint32_t add_constant(std::vector<uint32_t> dims, int32_t channel_dim) {
    static constexpr XnnDatatype kTypes[] = {
        XnnDatatype::kFp32,   XnnDatatype::kFp16,    XnnDatatype::kQInt8,  XnnDatatype::kQUInt8,
        XnnDatatype::kQCInt8, XnnDatatype::kQCInt32, XnnDatatype::kQCInt4, XnnDatatype::kInt32,
        XnnDatatype::kBf16,   XnnDatatype::kQInt32};
    XnnValue v{.datatype = kTypes[pick(10)], .dims = std::move(dims)};
    switch (v.datatype) {
      case XnnDatatype::kQInt8:
      case XnnDatatype::kQUInt8:
        v.quant = XnnPerTensor{.scale = 0.5F, .zero_point = static_cast<int32_t>(pick(100))};
        break;
      case XnnDatatype::kQInt32:
        v.quant = XnnPerTensor{.scale = 0.25F, .zero_point = 0};
        break;
      case XnnDatatype::kQCInt8:
      case XnnDatatype::kQCInt32:
      case XnnDatatype::kQCInt4: {
        const uint32_t channels = v.dims[static_cast<size_t>(channel_dim)];
        XnnPerChannel q{.scales = {}, .channel_dim = channel_dim};
        if (pick(2) == 1) {
          q.scales.assign(channels, 0.75F);
        } else {
          q.scale_constant = add_constant_bytes(uint64_t{channels} * 4, true);
          q.num_scales = channels;
        }
        v.quant = q;
        break;
      }
      default:
        break;
    }
    v.constant = add_constant_bytes(*xnn_constant_bytes(v), false);
    return add_value(std::move(v));
  }

  void add_node(XnnNodeKind kind) {
    const XnnNodeInfo& row = info(kind);
    XnnNode node{.kind = kind, .inputs = {}, .outputs = {}, .params = {}};
    node.flags = pick(3);
    node.debug_handle = pick(70000);
    if (row.clamps && pick(2) == 1) {
      node.output_min = 0;
      if (pick(2) == 1) node.output_max = 6;
    }
    for (uint32_t i = 0; i < row.num_inputs; ++i) {
      node.inputs.push_back(ready_[pick(static_cast<uint32_t>(ready_.size()))]);
    }
    fill_params(node, row.family);
    for (uint32_t i = 0; i < row.num_outputs; ++i) {
      XnnValue out{.datatype = XnnDatatype::kFp32, .dims = {1, 4, 4, 8}};
      if (pick(4) == 0) {
        out.datatype = XnnDatatype::kQDInt8;
        out.quant = XnnPerTokenDynamic{.num_nonbatch_dims = 3};
      }
      node.outputs.push_back(add_value(std::move(out)));
      ready_.push_back(node.outputs.back());
    }
    graph_.nodes.push_back(std::move(node));
  }

  void fill_params(XnnNode& node, XnnFamily family) {
    switch (family) {
      case XnnFamily::kFullyConnected:
        if (pick(2) == 0) {
          XnnValue filter{.datatype = XnnDatatype::kQBInt4, .dims = {6, 64}};
          XnnPerChannelGroup q{.scales = {}, .channel_dim = 0, .group_size = 32};
          q.scale_constant = add_constant_bytes(24, true);
          q.num_scales = 12;
          filter.quant = q;
          filter.constant = add_constant_bytes(*xnn_constant_bytes(filter), false);
          node.inputs[1] = add_value(std::move(filter));
        } else {
          node.inputs[1] = add_constant({6, 8}, 0);
        }
        node.inputs[2] = pick(2) == 0 ? kXnnNoId : add_constant({6}, 0);
        return;
      case XnnFamily::kConv: {
        XnnConv p{.padding_top = pick(3), .padding_right = pick(3), .padding_bottom = pick(3)};
        p.kernel_height = 1 + pick(3);
        p.kernel_width = 1 + pick(3);
        p.subsampling_height = p.subsampling_width = 2;
        p.dilation_height = p.dilation_width = 1 + pick(2);
        p.groups = 2;
        p.group_input_channels = 4;
        p.group_output_channels = 3;
        p.adjustment_height = pick(2);
        const bool depthwise = node.kind == XnnNodeKind::kDepthwiseConv2d;
        const std::vector<uint32_t> filter = {depthwise ? 1u : 6u, p.kernel_height, p.kernel_width,
                                              depthwise ? 6u : 4u};
        node.inputs[1] = add_constant(filter, depthwise ? 3 : 0);
        node.inputs[2] = pick(2) == 0 ? kXnnNoId : add_constant({6}, 0);
        node.params = p;
        return;
      }
      case XnnFamily::kPool:
        node.params = XnnPool{.padding_left = pick(2),
                              .pooling_height = 2,
                              .pooling_width = 3,
                              .stride_height = 1 + pick(2),
                              .stride_width = 1,
                              .dilation_height = pick(2),
                              .dilation_width = 1};
        return;
      case XnnFamily::kArgMaxPool:
        node.params = XnnPool{.padding_top = 1, .pooling_height = 2, .pooling_width = 2};
        return;
      case XnnFamily::kConcat:
        node.params = XnnAxis{pick(4)};
        return;
      case XnnFamily::kTranspose:
        node.params = XnnTranspose{{0, 2, 3, 1}};
        return;
      case XnnFamily::kReshape:
        node.params = XnnReshape{{4, 0, 8}};
        return;
      case XnnFamily::kSlice:
        node.params = XnnSlice{{0, 1, 0, 2}, {1, 3, 4, pick(6)}};
        return;
      case XnnFamily::kPad:
        node.params = XnnPad{{0, 1, 1, 0}, {0, pick(4), 1, 0}, -1.5F};
        return;
      case XnnFamily::kResize:
        node.params = XnnResize{9, 1 + pick(9)};
        return;
      case XnnFamily::kAlpha:
        node.params = XnnAlpha{0.01F};
        return;
      case XnnFamily::kUnary:
      case XnnFamily::kBinary:
      case XnnFamily::kAttention:
        return;
    }
  }

  std::mt19937 random_;
  XnnGraph graph_;
  std::vector<uint32_t> ready_;
};

TEST(XnnRoundTrip, RandomGraphsComeBackEqual) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    const XnnGraph graph = RandomGraph(seed).make();
    auto payload = write_xnn_payload(graph);
    ASSERT_TRUE(payload.ok()) << payload.status().message();
    auto read = read_xnn_payload(*payload);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_TRUE(same_graph(*read, graph));
    auto again = write_xnn_payload(*read);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *payload);
  }
}

TEST(XnnRoundTrip, MisalignedPayloadsAreRead) {
  const XnnGraph graph = RandomGraph(1).make();
  auto payload = write_xnn_payload(graph);
  ASSERT_TRUE(payload.ok());
  for (size_t shift = 1; shift < 8; ++shift) {
    std::vector<uint8_t> shifted(shift, 0);
    shifted.insert(shifted.end(), payload->begin(), payload->end());
    auto read = read_xnn_payload(Bytes(shifted).subspan(shift));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_TRUE(same_graph(*read, graph));
  }
}

TEST(XnnRead, ResolvesNamesAndChecksTheirSize) {
  XnnGraph graph = examples::add_relu_graph();
  graph.constants.push_back({.named_key = "w", .size = 24, .data = {}});
  graph.values[1] = {.datatype = XnnDatatype::kFp32, .dims = {2, 3}, .constant = 1};
  graph.values[2].external_id = 1;
  graph.input_ids = {0};
  auto payload = write_xnn_payload(graph);
  ASSERT_TRUE(payload.ok()) << payload.status().message();
  const std::vector<uint8_t> data(24, 3);
  auto good = read_xnn_payload(*payload, [&data](std::string_view key) -> std::optional<Bytes> {
    if (key != "w") return std::nullopt;
    return data;
  });
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(good->constants[1].data.data(), data.data());
  auto missing = read_xnn_payload(*payload, [](auto) { return std::nullopt; });
  EXPECT_EQ(missing.status().message(), "constant 1: the program has no named data 'w'");
  auto wrong = read_xnn_payload(*payload, [&data](auto) { return Bytes(data).first(20); });
  EXPECT_EQ(wrong.status().message(), "constant 1: named data 'w' has 20 bytes, expected 24");
}

TEST(XnnScales, AreFoundInlineAndInConstants) {
  const std::vector<int8_t> weight = {1, 2, 3, 4, 5, 6};
  const std::vector<float> scales = {0.5F, 2.0F};
  const std::vector<float> bias = {0, 0};
  const XnnGraph graph = examples::quantized_linear_graph(weight, scales, bias);
  auto found = xnn_scales(graph, graph.values[2]);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, scales);
  EXPECT_FALSE(xnn_scales(graph, graph.values[0]).ok());
  XnnGraph unresolved = graph;
  unresolved.constants[2].data = {};
  EXPECT_EQ(xnn_scales(unresolved, graph.values[2]).status().kind(), ErrorKind::kNotFound);
}

// ---- what must be refused ----

struct BadGraph {
  std::string name;
  std::function<void(XnnGraph&)> spoil;
  std::string message;
};

// Values: 0 input, 1 dynamic int8, 2 filter [2,3], 3 bias [2], 4 output.
// Nodes: 0 convert, 1 fully connected. Constants: 1 filter, 2 scales, 3 bias.
std::vector<BadGraph> bad_quantized_graphs() {
  static const std::vector<float> zero = {0.5F, 0.0F};
  static const std::vector<float> negative = {-0.5F, 1.0F};
  static const std::vector<float> nan = {1.0F, std::numeric_limits<float>::quiet_NaN()};
  const auto scale_bytes = [](XnnGraph& g, const std::vector<float>& scales) {
    g.constants[2].data = {reinterpret_cast<const uint8_t*>(scales.data()), 8};
  };
  const auto per_channel = [](XnnGraph& g) -> XnnPerChannel& {
    return std::get<XnnPerChannel>(g.values[2].quant);
  };
  const auto per_tensor = [](XnnGraph& g, float scale, int32_t zero_point) {
    g.values[1].datatype = XnnDatatype::kQInt8;
    g.values[1].quant = XnnPerTensor{.scale = scale, .zero_point = zero_point};
  };
  return {
      {"scale 0", [=](auto& g) { scale_bytes(g, zero); },
       "value 2: scale 1 is 0, expected a finite number above 0"},
      {"negative scale", [=](auto& g) { scale_bytes(g, negative); }, "value 2: scale 0 is -0.5"},
      {"NaN scale", [=](auto& g) { scale_bytes(g, nan); }, "value 2: scale 1 is nan"},
      {"scale count", [=](auto& g) { per_channel(g).num_scales = 3; },
       "value 2: 3 scales, expected 2"},
      {"huge scale count", [=](auto& g) { per_channel(g).num_scales = 0xffffffffu; },
       "value 2: 4294967295 scales, expected 2"},
      {"scale constant", [=](auto& g) { per_channel(g).scale_constant = 4; },
       "value 2: scales: constant 4, but the payload has 3"},
      {"short scales", [](auto& g) { g.constants[2].size = 7; },
       "value 2: scales: constant 2 has 7 bytes, 8 expected"},
      {"channel_dim", [=](auto& g) { per_channel(g).channel_dim = 2; },
       "value 2: channel_dim 2 for rank 2"},
      {"channel_dim -1", [=](auto& g) { per_channel(g).channel_dim = -1; },
       "value 2: channel_dim -1 for rank 2"},
      {"no parameters", [](auto& g) { g.values[2].quant = {}; },
       "value 2: quantization parameters of another kind than datatype qcint8 needs"},
      {"zero point", [=](auto& g) { per_tensor(g, 1, 128); },
       "value 1: zero point 128, expected -128 to 127 for qint8"},
      {"infinite scale", [=](auto& g) { per_tensor(g, INFINITY, 0); },
       "value 1: scale inf, expected a finite number above 0"},
      {"nonbatch dims",
       [](auto& g) { g.values[1].quant = XnnPerTokenDynamic{.num_nonbatch_dims = 3}; },
       "value 1: num_nonbatch_dims 3 for rank 2"},
      {"constant of a dynamic type", [](auto& g) { g.values[1].constant = 1; },
       "value 1: a constant cannot have datatype qdint8"},
      {"constant id", [](auto& g) { g.values[3].constant = 4; },
       "value 3: constant 4, but the payload has 3"},
      {"short constant", [](auto& g) { g.values[3].dims = {3}; },
       "value 3: constant 3 has 8 bytes, 12 expected"},
      {"datatype", [](auto& g) { g.values[0].datatype = XnnDatatype(15); },
       "value 0: unknown datatype 15"},
      {"rank", [](auto& g) { g.values[0].dims.assign(7, 1); }, "value 0: rank 7, at most 6"},
      {"wrapping dims", [](auto& g) { g.values[0].dims.assign(3, 1u << 31); },
       "their product is too large"},
      {"flags", [](auto& g) { g.values[0].flags = 3; },
       "value 0: flags 3, expected 0, 1 (input) or 2 (output)"},
      {"external id", [](auto& g) { g.values[4].external_id = 2; },
       "value 4: external id 2 of an output, expected 1 to 2 - 1"},
      {"external id without flag", [](auto& g) { g.values[1].external_id = 0; },
       "value 1: external id 0, but neither input nor output"},
      {"two inputs with one id", [](auto& g) { g.values[1] = g.values[0]; },
       "value 1: external id 0 belongs to value 0"},
      {"input id", [](auto& g) { g.nodes[0].inputs[0] = 5; },
       "node 0 (XNNConvert): input 5, but the payload has 5 values"},
      {"input not defined", [](auto& g) { g.nodes[0].inputs[0] = 4; },
       "node 0 (XNNConvert): input 4 is not defined before it"},
      {"order", [](auto& g) { std::swap(g.nodes[0], g.nodes[1]); },
       "node 0 (XNNFullyConnected): input 1 is not defined before it"},
      {"written twice", [](auto& g) { g.nodes[1].outputs[0] = 1; },
       "node 1 (XNNFullyConnected): output 1 is defined before it"},
      {"constant written", [](auto& g) { g.nodes[1].outputs[0] = 3; },
       "node 1 (XNNFullyConnected): output 3 is defined before it"},
      {"never written", [](auto& g) { g.nodes.pop_back(); }, "no node writes output 4"},
      {"absent input", [](auto& g) { g.nodes[1].inputs[1] = kXnnNoId; },
       "node 1 (XNNFullyConnected): input 4294967295, but the payload has 5 values"},
      {"clamp",
       [](auto& g) {
         g.nodes[1].output_min = INFINITY;
         g.nodes[1].output_max = 0;
       },
       "node 1 (XNNFullyConnected): output range inf to 0"},
      {"number of inputs", [](auto& g) { g.nodes[1].inputs.pop_back(); },
       "node 1 (XNNFullyConnected): 2 inputs and 1 outputs, expected 3 and 1"},
      {"parameters", [](auto& g) { g.nodes[1].params = XnnAxis{}; },
       "node 1 (XNNFullyConnected): parameters of another node family"},
      {"kind", [](auto& g) { g.nodes[1].kind = XnnNodeKind(48); },
       "node 1 (unknown kind): kind 48"},
  };
}

TEST(XnnVerify, RefusesEveryNumberThatPointsOutside) {
  static const std::vector<int8_t> weight = {1, 2, 3, 4, 5, 6};
  static const std::vector<float> ones = {1, 1};
  const XnnGraph graph = examples::quantized_linear_graph(weight, ones, ones);
  ASSERT_TRUE(verify_xnn_graph(graph).ok());
  for (const BadGraph& bad : bad_quantized_graphs()) {
    SCOPED_TRACE(bad.name);
    XnnGraph spoiled = graph;
    bad.spoil(spoiled);
    const Status status = verify_xnn_graph(spoiled);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find(bad.message), std::string::npos) << status.message();
    EXPECT_EQ(write_xnn_payload(spoiled).status().kind(), ErrorKind::kInvalidGraph);
  }
}

TEST(XnnVerify, RefusesBadNodeParameters) {
  struct Row {
    XnnNodeKind kind;
    XnnParams params;
    std::string message;
  };
  const std::vector<Row> rows = {
      {XnnNodeKind::kStaticTranspose, XnnTranspose{{0, 1, 1, 2}},
       "perm [0,1,1,2] is no permutation of the 4 dimensions"},
      {XnnNodeKind::kStaticTranspose, XnnTranspose{{0, 1}},
       "perm [0,1] is no permutation of the 4 dimensions"},
      {XnnNodeKind::kStaticReshape, XnnReshape{{0, 0, 4}}, "one of them inferred"},
      {XnnNodeKind::kStaticSlice, XnnSlice{{0, 0, 0}, {1, 1, 1}}, "entries for rank 4"},
      {XnnNodeKind::kStaticSlice, XnnSlice{{0, 0, 0, 5}, {1, 1, 1, 4}},
       "dimension 3: slice of 4 at 5 of 8"},
      {XnnNodeKind::kStaticSlice, XnnSlice{{0, 0, 0, 0xffffffff}, {1, 1, 1, 2}},
       "dimension 3: slice of 2 at 4294967295 of 8"},
      {XnnNodeKind::kStaticConstantPad, XnnPad{{1}, {0, 0, 0, 0}}, "entries for rank 4"},
      {XnnNodeKind::kStaticResizeBilinear2D, XnnResize{0, 4}, "to 0 x 4"},
      {XnnNodeKind::kLeakyReLU, XnnAlpha{NAN}, "alpha is nan"},
      {XnnNodeKind::kMaxPooling2d, XnnPool{.pooling_height = 2}, "window of 2 x 0"},
      {XnnNodeKind::kMaxPooling2d, XnnPool{.pooling_height = 2, .pooling_width = 2},
       "stride of 0 x 0"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.message);
    XnnGraph graph;
    graph.values = {examples::external({1, 4, 4, 8}, 0, XnnValue::kExternalInput),
                    examples::external({1, 4, 4, 8}, 1, XnnValue::kExternalOutput)};
    graph.nodes = {XnnNode{.kind = row.kind, .inputs = {0}, .outputs = {1}, .params = row.params}};
    graph.input_ids = {0};
    graph.output_ids = {1};
    const Status status = verify_xnn_graph(graph);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find(row.message), std::string::npos) << status.message();
  }
}

TEST(XnnVerify, RefusesAFilterUnlikeItsConvolution) {
  XnnGraph graph;
  graph.constants.push_back({.named_key = "w", .size = 1u << 20, .data = {}});
  graph.values = {examples::external({1, 4, 4, 8}, 0, XnnValue::kExternalInput),
                  XnnValue{.datatype = XnnDatatype::kFp32, .dims = {6, 3, 3, 8}, .constant = 1},
                  examples::external({1, 4, 4, 6}, 1, XnnValue::kExternalOutput)};
  XnnConv p{.kernel_height = 3, .kernel_width = 3};
  p.subsampling_height = p.subsampling_width = p.dilation_height = p.dilation_width = 1;
  p.groups = 1;
  p.group_input_channels = 8;
  p.group_output_channels = 6;
  graph.nodes = {XnnNode{
      .kind = XnnNodeKind::kConv2d, .inputs = {0, 1, kXnnNoId}, .outputs = {2}, .params = p}};
  graph.input_ids = {0};
  graph.output_ids = {2};
  ASSERT_TRUE(verify_xnn_graph(graph).ok()) << verify_xnn_graph(graph).message();
  p.group_output_channels = 7;
  graph.nodes[0].params = p;
  EXPECT_EQ(verify_xnn_graph(graph).message(),
            "node 0 (XNNConv2d): filter [6,3,3,8], expected [7,3,3,8] and an input of rank 4");
  p.groups = 0;
  graph.nodes[0].params = p;
  EXPECT_FALSE(verify_xnn_graph(graph).ok());
}

TEST(XnnWrite, RefusesWhatTheRuntimeRejects) {
  XnnGraph graph = examples::add_relu_graph();
  graph.nodes[0] = {.kind = XnnNodeKind::kScaledDotProductAttention,
                    .inputs = {0, 1, 0, 0, 0},
                    .outputs = {2},
                    .params = {}};
  ASSERT_TRUE(verify_xnn_graph(graph).ok());
  EXPECT_EQ(write_xnn_payload(graph).status().message(),
            "node 0: the runtime rejects XNNScaledDotProductAttention");
  graph = examples::add_relu_graph();
  graph.values[0].dims.clear();
  EXPECT_EQ(write_xnn_payload(graph).status().message(), "value 0: rank 0, expected dims [1]");
}

TEST(XnnRead, RefusesBadHeadersAndMagic) {
  auto good =
      write_xnn_payload(examples::quantized_linear_graph({1, 2, 3, 4, 5, 6}, {1, 1}, {0, 0}));
  ASSERT_TRUE(good.ok());
  struct Row {
    size_t at;
    uint64_t value;
    size_t width;
    std::string message;
  };
  const std::vector<Row> rows = {
      {8, 29, 2, "header of 29 bytes, expected 30"},
      {10, 1u << 20, 4, "in a payload of"},
      {14, 4, 4, "flatbuffer of 4 bytes at 32"},
      {18, 40, 4, "constants of"},
      {18, 0xfffffff0, 4, "constants of"},
      {22, 1, 8, "lie outside the inline constants of 1"},
      {22, ~uint64_t{0}, 8, "constants of 18446744073709551615 bytes"},
      {36, 0x39394e58, 4, "identifier 'XN99', expected 'XN01'"},
      {4, 0x39394858, 4, "identifier 'XH99', expected 'XN01'"},
      {32, 0x40000000, 4, "damaged"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.message);
    std::vector<uint8_t> bytes = *good;
    std::memcpy(bytes.data() + row.at, &row.value, row.width);
    auto read = read_xnn_payload(bytes);
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.status().kind(), ErrorKind::kInvalidFile);
    EXPECT_NE(read.status().message().find(row.message), std::string::npos)
        << read.status().message();
  }
  // The older identifier is fine, and so is a flatbuffer without the header.
  std::vector<uint8_t> old = *good;
  old[39] = '0';
  EXPECT_TRUE(read_xnn_payload(old).ok());
  auto bare = write_xnn_payload(examples::add_relu_graph());
  ASSERT_TRUE(bare.ok());
  EXPECT_TRUE(read_xnn_payload(Bytes(*bare).subspan(32)).ok());
}

}  // namespace
}  // namespace downhaul

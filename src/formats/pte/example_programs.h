#pragma once

#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "formats/pte/pte.h"
#include "formats/pte/pte_writer.h"
#include "formats/xnn/xnn.h"

/// Small programs by hand, for tests, fuzzing and the check against the stock runtime.
namespace downhaul::examples {

struct Example {
  std::string name;
  pte::Program program;
  PteBuilder builder;
};

template <typename T>
std::vector<uint8_t> bytes_of(const std::vector<T>& items) {
  std::vector<uint8_t> out(items.size() * sizeof(T));
  if (!items.empty()) std::memcpy(out.data(), items.data(), out.size());
  return out;
}

inline pte::Tensor tensor(std::vector<int32_t> sizes,
                          pte::ScalarType dtype = pte::ScalarType::kFloat) {
  pte::Tensor t;
  t.sizes = std::move(sizes);
  for (size_t i = 0; i < t.sizes.size(); ++i) t.dim_order.push_back(static_cast<uint8_t>(i));
  t.dtype = dtype;
  return t;
}

inline pte::Tensor planned(std::vector<int32_t> sizes, uint64_t offset,
                           pte::ScalarType dtype = pte::ScalarType::kFloat) {
  pte::Tensor t = tensor(std::move(sizes), dtype);
  t.allocation = {.memory_id = 1, .offset = offset};
  return t;
}

inline pte::Tensor constant(std::vector<int32_t> sizes, uint32_t data_index) {
  pte::Tensor t = tensor(std::move(sizes));
  t.data_index = data_index;
  return t;
}

/// y = x + c with c = [0, 10, 20, 30, 40, 50] as [2, 3]; one portable kernel.
inline Example add_constant() {
  Example e{.name = "add_constant", .program = {}, .builder = {}};
  const uint32_t c = e.builder.add_constant(Blob::owned(bytes_of<float>({0, 10, 20, 30, 40, 50})));
  pte::Plan plan;
  plan.name = "forward";
  plan.values = {constant({2, 3}, c), planned({2, 3}, 0), pte::Int{1}, planned({2, 3}, 32)};
  plan.inputs = {1};
  plan.outputs = {3};
  plan.operators = {{"aten::add", "out"}};
  plan.chains = {{.inputs = {},
                  .outputs = {},
                  .instructions = {pte::KernelCall{.op_index = 0, .args = {1, 0, 2, 3, 3}}}}};
  plan.non_const_buffer_sizes = {0, 64};
  e.program.plans = {plan};
  return e;
}

inline XnnValue external(std::vector<uint32_t> dims, uint32_t id, uint32_t flags) {
  return {.datatype = XnnDatatype::kFp32,
          .dims = std::move(dims),
          .constant = 0,
          .external_id = id,
          .flags = flags,
          .quant = {}};
}

/// One delegate with `payload`, whose inputs and outputs are float32 of the given sizes.
inline pte::Plan delegate_plan(const std::vector<std::vector<int32_t>>& inputs,
                               const std::vector<std::vector<int32_t>>& outputs, uint32_t payload) {
  pte::Plan plan;
  plan.name = "forward";
  uint64_t end = 0;
  pte::DelegateCall call;
  const auto add = [&](const std::vector<int32_t>& sizes, std::vector<int32_t>& ids) {
    pte::Tensor t = planned(sizes, end);
    end += (*pte::tensor_bytes(t) + 15) / 16 * 16;
    ids.push_back(static_cast<int32_t>(plan.values.size()));
    call.args.push_back(ids.back());
    plan.values.emplace_back(std::move(t));
  };
  for (const auto& sizes : inputs) add(sizes, plan.inputs);
  for (const auto& sizes : outputs) add(sizes, plan.outputs);
  plan.delegates = {{.id = "XnnpackBackend", .payload = payload, .compile_specs = {}}};
  plan.chains = {{.inputs = {}, .outputs = {}, .instructions = {call}}};
  plan.non_const_buffer_sizes = {0, static_cast<int64_t>(end)};
  return plan;
}

/// y = relu(a + b), [2, 3]; one node.
inline XnnGraph add_relu_graph() {
  XnnGraph graph;
  graph.values = {external({2, 3}, 0, XnnValue::kExternalInput),
                  external({2, 3}, 1, XnnValue::kExternalInput),
                  external({2, 3}, 2, XnnValue::kExternalOutput)};
  XnnNode add{.kind = XnnNodeKind::kAdd, .inputs = {0, 1}, .outputs = {2}, .params = {}};
  add.output_min = 0;
  graph.nodes = {add};
  graph.input_ids = {0, 1};
  graph.output_ids = {2};
  return graph;
}

inline Result<Example> add_relu() {
  Example e{.name = "add_relu", .program = {}, .builder = {}};
  DH_ASSIGN(std::vector<uint8_t> payload, write_xnn_payload(add_relu_graph()));
  const uint32_t index = e.builder.add_payload(Blob::owned(std::move(payload)));
  e.program.plans = {delegate_plan({{2, 3}, {2, 3}}, {{2, 3}}, index)};
  return e;
}

/// y = x W^T + b with W [2, 3] inline and b [2] inline, int8 weights with a scale per channel.
inline XnnGraph quantized_linear_graph(const std::vector<int8_t>& weight,
                                       const std::vector<float>& scales,
                                       const std::vector<float>& bias) {
  const auto view = [](const auto& items) {
    return Bytes{reinterpret_cast<const uint8_t*>(items.data()), items.size() * sizeof(items[0])};
  };
  XnnGraph graph;
  for (const Bytes data : {view(weight), view(scales), view(bias)}) {
    graph.constants.push_back({.named_key = {}, .size = data.size(), .data = data});
  }
  XnnValue dynamic{.datatype = XnnDatatype::kQDInt8, .dims = {1, 3}};
  dynamic.quant = XnnPerTokenDynamic{.num_nonbatch_dims = 1};
  XnnValue filter{.datatype = XnnDatatype::kQCInt8, .dims = {2, 3}, .constant = 1};
  filter.quant =
      XnnPerChannel{.scales = {}, .channel_dim = 0, .scale_constant = 2, .num_scales = 2};
  graph.values = {external({1, 3}, 0, XnnValue::kExternalInput), dynamic, filter,
                  XnnValue{.datatype = XnnDatatype::kFp32, .dims = {2}, .constant = 3},
                  external({1, 2}, 1, XnnValue::kExternalOutput)};
  graph.nodes = {
      XnnNode{.kind = XnnNodeKind::kConvert, .inputs = {0}, .outputs = {1}, .params = {}},
      XnnNode{
          .kind = XnnNodeKind::kFullyConnected, .inputs = {1, 2, 3}, .outputs = {4}, .params = {}}};
  graph.input_ids = {0};
  graph.output_ids = {4};
  return graph;
}

inline Result<Example> quantized_linear() {
  static const std::vector<int8_t> weight = {1, 2, 3, -1, 0, 1};
  static const std::vector<float> scales = {0.5F, 2.0F};
  static const std::vector<float> bias = {100.0F, -100.0F};
  Example e{.name = "quantized_linear", .program = {}, .builder = {}};
  DH_ASSIGN(std::vector<uint8_t> payload,
            write_xnn_payload(quantized_linear_graph(weight, scales, bias)));
  const uint32_t index = e.builder.add_payload(Blob::owned(std::move(payload)));
  e.program.plans = {delegate_plan({{1, 3}}, {{1, 2}}, index)};
  return e;
}

/// A tied table W [5, 4], W[i][j] = 10 i + j: h = W[ids] by a portable kernel (ids int64 [1, 2]),
/// y = h W^T [1, 2, 5] by a delegate that finds W as named data inside the constants.
inline Result<Example> tied_table() {
  Example e{.name = "tied_table", .program = {}, .builder = {}};
  std::vector<float> table;
  for (int i = 0; i < 20; ++i) table.push_back(static_cast<float>(10 * (i / 4) + i % 4));
  const Blob blob = Blob::owned(bytes_of(table));
  e.builder.add_constant(Blob::owned(bytes_of<float>({7, 7, 7})));  // so that W is not at 0
  const uint32_t w = e.builder.add_constant(blob);
  e.builder.add_named_data("table", blob);

  XnnGraph graph;
  graph.constants.push_back({.named_key = "table", .size = blob.size(), .data = {}});
  graph.values = {external({1, 2, 4}, 0, XnnValue::kExternalInput),
                  XnnValue{.datatype = XnnDatatype::kFp32, .dims = {5, 4}, .constant = 1},
                  external({1, 2, 5}, 1, XnnValue::kExternalOutput)};
  graph.nodes = {XnnNode{.kind = XnnNodeKind::kFullyConnected,
                         .inputs = {0, 1, kXnnNoId},
                         .outputs = {2},
                         .params = {}}};
  graph.input_ids = {0};
  graph.output_ids = {2};
  DH_ASSIGN(std::vector<uint8_t> payload, write_xnn_payload(graph));
  const uint32_t index = e.builder.add_payload(Blob::owned(std::move(payload)));

  pte::Plan plan;
  plan.name = "forward";
  plan.values = {constant({5, 4}, w),    planned({1, 2}, 0, pte::ScalarType::kLong),
                 pte::Int{-1},           pte::Bool{false},
                 planned({1, 2, 4}, 16), planned({1, 2, 5}, 48)};
  plan.inputs = {1};
  plan.outputs = {5};
  plan.operators = {{"aten::embedding", "out"}};
  plan.delegates = {{.id = "XnnpackBackend", .payload = index, .compile_specs = {}}};
  plan.chains = {{.inputs = {},
                  .outputs = {},
                  .instructions = {pte::KernelCall{.op_index = 0, .args = {0, 1, 2, 3, 3, 4, 4}},
                                   pte::DelegateCall{.delegate_index = 0, .args = {4, 5}}}}};
  plan.non_const_buffer_sizes = {0, 96};
  e.program.plans = {plan};
  return e;
}

/// Every kind of value and instruction, every kind of segment, two plans. Readable, not runnable.
inline Result<Example> every_feature() {
  DH_ASSIGN(Example e, tied_table());
  e.name = "every_feature";
  const uint32_t initial =
      e.builder.add_initial_content(Blob::owned(bytes_of<float>({1, 2, 3, 4})));
  e.builder.add_named_data("notes", Blob::owned({'t', 'e', 'x', 't'}));
  e.builder.add_named_data("more notes", Blob::owned({'t', 'e', 'x', 't'}));
  e.builder.add_named_constant("rows", 2, 16, 32);

  pte::Plan plan = e.program.plans[0];
  plan.name = "second";
  plan.encoded_inputs = "[1, {\"type\": null}]";
  plan.encoded_outputs = "leaf";
  const auto id = [&plan] { return static_cast<int32_t>(plan.values.size()); };
  const int32_t first = id();
  plan.values.emplace_back(pte::Null{});
  plan.values.emplace_back(pte::Double{-std::numeric_limits<double>::infinity()});
  plan.values.emplace_back(pte::String{"mean"});
  plan.values.emplace_back(pte::IntList{{2, 2}});
  plan.values.emplace_back(pte::DoubleList{{0.5, -2}});
  plan.values.emplace_back(pte::BoolList{{1, 0, 1}});
  plan.values.emplace_back(pte::TensorList{{0, 4}});
  plan.values.emplace_back(pte::OptionalTensorList{{-1, first, 0}});
  pte::Tensor state = planned({2, 2}, 80);
  state.data_index = initial;
  state.dynamism = pte::Dynamism::kDynamicBound;
  plan.values.emplace_back(state);
  pte::Tensor elsewhere = tensor({3}, pte::ScalarType::kHalf);
  elsewhere.external_name = "model.weight";
  elsewhere.requires_grad = true;
  plan.values.emplace_back(elsewhere);
  pte::Tensor image = tensor({1, 3, 4, 4});
  image.dim_order = {0, 2, 3, 1};
  plan.values.emplace_back(image);
  plan.values.emplace_back(tensor({}, pte::ScalarType::kBool));
  const int32_t condition = id() - 1;
  plan.delegates.push_back(plan.delegates[0]);
  plan.delegates[1].id = "OtherBackend";
  plan.delegates[1].compile_specs = {{"max_value", {4, 0, 0, 0}}, {"empty", {}}};
  plan.operators.push_back({"executorch_prim::et_view", "default"});
  plan.operators.push_back({"custom::op", ""});
  auto& code = plan.chains[0].instructions;
  code.emplace_back(pte::JumpFalseCall{.condition = condition, .destination = 5});
  code.emplace_back(pte::MoveCall{.from = 4, .to = 5});
  code.emplace_back(pte::FreeCall{.value = 4});
  e.program.plans.push_back(plan);
  return e;
}

inline Result<std::vector<Example>> all() {
  std::vector<Example> out;
  out.push_back(add_constant());
  for (const auto make : {add_relu, quantized_linear, tied_table, every_feature}) {
    DH_ASSIGN(Example e, make());
    out.push_back(std::move(e));
  }
  return out;
}

}  // namespace downhaul::examples

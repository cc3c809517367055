#include "dialects/xnn/payload_builder.h"

#include <algorithm>

#include "base/strings.h"

namespace downhaul::xnn {

std::vector<uint32_t> payload_dims(const TensorType& type) {
  std::vector<uint32_t> dims;
  for (const Dim& d : type.shape) dims.push_back(static_cast<uint32_t>(d.max()));
  if (dims.empty()) dims.push_back(1);
  return dims;
}

PayloadBuilder::PayloadBuilder(std::span<Value* const> inputs, std::span<Value* const> outputs)
    : outputs_(outputs.begin(), outputs.end()) {
  for (const Value* input : inputs) {
    XnnValue value;
    value.dims = payload_dims(input->type());
    value.external_id = static_cast<uint32_t>(payload_.graph.input_ids.size());
    value.flags = XnnValue::kExternalInput;
    const uint32_t id = add_value(std::move(value));
    ids_[input] = id;
    payload_.graph.input_ids.push_back(id);
  }
  payload_.graph.output_ids.assign(outputs.size(), kXnnNoId);
}

uint32_t PayloadBuilder::add_value(XnnValue value) {
  payload_.graph.values.push_back(std::move(value));
  return static_cast<uint32_t>(payload_.graph.values.size() - 1);
}

uint32_t PayloadBuilder::add_constant(const Tensor& data, const std::string& key) {
  XnnConstant constant;
  constant.size = data.num_bytes();
  constant.named_key = key;
  constant.data = data.bytes();
  const bool known = std::any_of(payload_.named.begin(), payload_.named.end(),
                                 [&](const XnnNamedTensor& n) { return n.key == key; });
  if (!known) payload_.named.push_back({key, data});
  payload_.graph.constants.push_back(std::move(constant));
  XnnValue value;
  value.dims = payload_dims(type_of(data));
  value.constant = static_cast<uint32_t>(payload_.graph.constants.size() - 1);
  return add_value(std::move(value));
}

uint32_t PayloadBuilder::use(const Value* value) {
  if (const auto found = ids_.find(value); found != ids_.end()) return found->second;
  DH_CHECK(value->is_constant());
  const uint32_t id = add_constant(value->constant(), value->name());
  ids_[value] = id;
  return id;
}

uint32_t PayloadBuilder::use_as(const Value* constant, std::string_view spelling,
                                const std::function<Tensor(const Tensor&)>& make) {
  auto key = std::make_pair(constant, std::string(spelling));
  if (const auto found = respelled_.find(key); found != respelled_.end()) return found->second;
  const Tensor data = make(constant->constant());
  // Bytes that did not move are still the constant itself, which others may refer to by its name.
  const bool same = data.storage() == constant->constant().storage() &&
                    data.byte_offset() == constant->constant().byte_offset();
  const uint32_t id =
      add_constant(data, same ? constant->name() : cat(constant->name(), "/", spelling));
  respelled_[std::move(key)] = id;
  return id;
}

uint32_t PayloadBuilder::use_packed(const Value* constant) {
  if (constant == nullptr) return kXnnNoId;
  return use_as(constant, "packed", [](const Tensor& t) { return t; });
}

uint32_t PayloadBuilder::define(const Value* result) {
  const auto fused = fused_.find(result->producer());
  const Value* named = fused == fused_.end() ? result : fused->second.alias;
  XnnValue value;
  value.dims = payload_dims(named->type());
  const auto output = std::find(outputs_.begin(), outputs_.end(), named);
  if (output != outputs_.end()) {
    const auto position = static_cast<size_t>(output - outputs_.begin());
    value.external_id = static_cast<uint32_t>(payload_.graph.input_ids.size() + position);
    value.flags = XnnValue::kExternalOutput;
    payload_.graph.output_ids[position] = static_cast<uint32_t>(payload_.graph.values.size());
  }
  const uint32_t id = add_value(std::move(value));
  ids_[named] = id;
  return id;
}

uint32_t PayloadBuilder::define_internal(std::vector<uint32_t> dims) {
  XnnValue value;
  value.dims = std::move(dims);
  return add_value(std::move(value));
}

XnnNode& PayloadBuilder::add(XnnNodeKind kind, std::vector<uint32_t> inputs, uint32_t output,
                             XnnParams params) {
  XnnNode node;
  node.kind = kind;
  node.inputs = std::move(inputs);
  node.outputs = {output};
  node.params = std::move(params);
  if (!node_->origins().empty()) node.debug_handle = static_cast<uint32_t>(node_->origins()[0]);
  if (const auto fused = fused_.find(node_); fused != fused_.end() && info(kind).clamps) {
    node.output_min = fused->second.min;
    node.output_max = fused->second.max;
  }
  payload_.graph.nodes.push_back(std::move(node));
  return payload_.graph.nodes.back();
}

void PayloadBuilder::begin(const Node& node) { node_ = &node; }

void PayloadBuilder::fuse(const Node& producer, const Value* alias, float min, float max) {
  fused_[&producer] = {alias, min, max};
}

Result<XnnPayload> PayloadBuilder::finish() && {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (payload_.graph.output_ids[i] == kXnnNoId) {
      return invalid_graph(cat("payload: output '", printable(outputs_[i]->name()),
                               "' is not computed by a node of the region"));
    }
  }
  return std::move(payload_);
}

}  // namespace downhaul::xnn

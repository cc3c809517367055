#pragma once

#include <string>
#include <vector>

#include "dialects/xnn/raise.h"

namespace downhaul::xnn {

/// Values and constants of a payload while it is raised, for one node at a time.
class RaiseCall {
 public:
  RaiseCall(const XnnGraph& graph, const XnnTensorLookup& lookup, Builder& builder)
      : graph_(graph), lookup_(lookup), b(builder), values_(graph.values.size()) {}

  const XnnNode& node() const { return *node_; }
  void set_node(const XnnNode& node) { node_ = &node; }
  template <typename Params>
  const Params& params() const {
    return std::get<Params>(node_->params);
  }

  bool has_input(size_t i) const { return node_->inputs[i] != kXnnNoId; }
  const XnnValue& input_value(size_t i) const { return graph_.values[node_->inputs[i]]; }
  /// The i-th input as an IR value; a constant is added to the graph on its first use. Null for an
  /// absent one.
  Result<Value*> input(size_t i);
  /// The i-th input's data as f32, dequantized where it is quantized. Errors: kUnsupported when it
  /// is not constant.
  Result<Tensor> constant(size_t i);
  /// A name for a constant made of input i.
  std::string constant_name(size_t i) const;

  void set_value(uint32_t id, Value* value) { values_[id] = value; }
  Value* value(uint32_t id) const { return values_[id]; }
  /// `v` rounded to the quantization of payload value `id`, or `v` itself when that is float.
  Result<Value*> with_quantization(uint32_t id, Value* v);

 private:
  Result<Tensor> load(uint32_t id);

  const XnnGraph& graph_;
  const XnnTensorLookup& lookup_;

 public:
  Builder& b;

 private:
  const XnnNode* node_ = nullptr;
  std::vector<Value*> values_;
};

}  // namespace downhaul::xnn

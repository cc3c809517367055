#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "ir/graph.h"
#include "models/config.h"
#include "models/weights.h"
#include "ops/ops.h"

namespace downhaul::models {

/// The words that models are written in. Layers take the name of their module, which gives the
/// weights' names and the nodes' origins. Once anything is missing or wrong, values are null and
/// the calls only go on to collect what else is; status() tells in the end.
class Net {
 public:
  Net(Graph& graph, Weights& weights) : graph_(graph), weights_(weights), b_(graph, nullptr) {}

  Graph& graph() const { return graph_; }
  Weights& weights() const { return weights_; }
  /// Every problem of the weights, else the first of the graph.
  Status status() const;
  bool ok() const { return b_.status().ok() && !missing_; }

  Value* op(const OpDef& op, std::vector<Value*> operands, const NamedAttrs& attrs = {});
  /// The module that following nodes belong to.
  void enter(std::string module) { module_ = std::move(module); }

  /// A constant; null after noting that the tensor is missing or has another shape.
  Value* weight(const std::string& name, const Extents& extents);
  Value* constant(const Tensor& tensor, const std::string& name);
  Value* scalar(DType dtype, double value) { return b_.scalar(dtype, value); }

  /// weight [out, in], bias [out] unless `bias` is false.
  Value* linear(Value* x, const std::string& module, const Extent& in, const Extent& out,
                bool bias = true);
  /// The weight is stored [in, out].
  Value* linear_transposed(Value* x, const std::string& module, const Extent& in,
                           const Extent& out);
  Value* layer_norm(Value* x, const std::string& module, const Extent& dim, double eps);
  Value* reshape(Value* x, Dims shape);
  Value* permute(Value* x, Ints dims);
  Value* slice(Value* x, int64_t dim, Dim begin, Dim end);
  /// x[:, index] without the dimension.
  Value* select(Value* x, int64_t dim, const Dim& index);
  Value* add(Value* a, Value* b);
  Value* mul(Value* a, Value* b);
  Value* cast(Value* x, DType dtype);
  Value* relu(Value* x);
  /// One of known_activations().
  Value* activation(Value* x, std::string_view name);

 private:
  Graph& graph_;
  Weights& weights_;
  Builder b_;
  /// As enter, by the name that the module has in the file.
  void enter_layer(const std::string& module);

  std::string module_;
  std::map<std::string, int, std::less<>> counts_;  // nodes of each operator, for their names
  std::map<std::tuple<const Storage*, uint64_t, Sizes>, Value*> constants_;
  bool missing_ = false;
};

/// The name is one that Net::activation takes; otherwise fails `config` with the list.
std::string checked_activation(Config& config, std::string_view key,
                               std::string_view default_value);

}  // namespace downhaul::models

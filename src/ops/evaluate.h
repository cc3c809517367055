#pragma once

#include <vector>

#include "ir/graph.h"

/// Evaluation with the reference kernels: slow, and the definition of what is right.
namespace downhaul {

/// Results of one node on concrete operands (null for absent ones).
Result<std::vector<Tensor>> evaluate_node(const Node& node,
                                          const std::vector<const Tensor*>& operands,
                                          const Bindings& bindings = {});

struct EvaluateOptions {
  /// Called after each node with its results, in execution order.
  void (*on_node)(const Node& node, const std::vector<Tensor>& results, void* context) = nullptr;
  void* context = nullptr;
};

/// Outputs of the graph, in order, for `inputs` in the order of graph.inputs(). Each input must
/// have the dtype and rank of the graph's, equal static sizes, and one value per symbol, within its
/// bounds. Values are freed after their last use. State updates are computed and dropped. Errors:
/// kInvalidArgument for an input that does not fit (names it, expected, found).
Result<std::vector<Tensor>> evaluate(const Graph& graph, const std::vector<Tensor>& inputs,
                                     const EvaluateOptions& options = {});

/// Values of the symbols that follow from the inputs' sizes. Errors: as evaluate.
Result<Bindings> bind_symbols(const Graph& graph, const std::vector<Tensor>& inputs);
/// The same from the static types of the inputs alone.
Result<Bindings> bind_symbols(const Graph& graph, const std::vector<TensorType>& inputs);

}  // namespace downhaul

#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ir/graph.h"

/// Where two evaluations of what should be one model part ways.
///
/// Both graphs are brought to the same form by the rewrites that every lowering shares, and
/// evaluated node by node with the reference kernels. A value of one is matched with a value of the
/// other that was made from a node of the same name, where both files carry such names; otherwise
/// with one of as many elements that is numerically equal within the tolerance, in whatever order
/// of dimensions. A value without a match is harmless when what it leads to is matched again: the
/// programs then only say the same thing in different steps. What is left leads to a wrong output.
/// Of that, the first operator is named that both graphs apply to matching operands, with another
/// result; or else the first one of each.
namespace downhaul {

struct OperatorPlace {
  std::string name;    ///< of its first result in the graph
  std::string op;      ///< "conv2d"
  std::string type;    ///< of its first result, "f32[1,3,8,8]"
  std::string origin;  ///< name of the source node and its module, where the file says
  std::vector<std::string> constants;  ///< names of its weights
  std::string str() const;             ///< for people, in one line
};

struct Divergence {
  std::optional<OperatorPlace> a, b;
  /// Largest difference between the two, when they have the same number of elements.
  std::optional<double> difference;
  /// Weights of the two operators that differ: "bias: largest difference 0.5".
  std::vector<std::string> weights;
  /// How b's values were matched.
  int by_name = 0;
  int by_value = 0;
  int unmatched = 0;
  /// The shared rewrites hid the difference, so that the graphs were compared as they stand.
  bool as_written = false;

  /// With the reference kernels too. Otherwise the graphs compute the same, and a difference seen
  /// elsewhere comes from the kernels that were used there.
  bool outputs_differ = false;

  /// False, in spite of outputs that differ, when these are inputs or constants themselves.
  bool found() const { return a || b; }
  /// "by the names of nodes", "by shape, order and numeric agreement", or both.
  std::string method() const;
};

struct DivergenceQuery {
  const Graph* a = nullptr;
  const Graph* b = nullptr;
  const std::vector<Tensor>* inputs_a = nullptr;
  const std::vector<Tensor>* inputs_b = nullptr;
  /// Outputs that correspond: positions in a and b.
  std::vector<std::pair<size_t, size_t>> outputs;
  /// 1: values may differ by their expected rounding (see rounding.h).
  double tolerance_factor = 1;
};

/// Errors: those of the evaluation.
Result<Divergence> find_divergence(const DivergenceQuery& query);

/// True when some order of a's dimensions lays out its elements as b's, or the other way round
/// (ranks up to 4 without dimensions of size 1; the order as it is for more), each within `limit`;
/// NaN equals NaN.
bool agree_in_some_order(const Tensor& a, const Tensor& b, double limit);

}  // namespace downhaul

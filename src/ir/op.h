#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "ir/type.h"

/// What an operator is: plain data, in one place, without knowledge of any file format.
namespace downhaul {

class Node;
struct RefCall;

using Ints = std::vector<int64_t>;
using Floats = std::vector<double>;

/// The value of an attribute; monostate is None.
using Attr = std::variant<std::monostate, bool, int64_t, double, std::string, DType, Dim, Dims,
                          Ints, Floats>;

bool operator==(const Attr& a, const Attr& b);

/// How a result depends on its operands, dimension by dimension. For operand o and its dimension d,
/// `operand[o][d]` is the result dimension that it maps to one to one (element j of the result
/// needs only element j of the operand there), or kWhole when every element may be needed (it is
/// reduced, mixed, or broadcast because its size is 1). Absent optional operands have an empty row.
/// Only for operators with one result.
struct AxisMap {
  static constexpr int kWhole = -1;
  std::vector<std::vector<int>> operand;
};

/// What a comparison of two evaluations may expect.
enum class Accuracy {
  kExact,     ///< moves or compares data: bit-equal everywhere
  kRounding,  ///< floating-point arithmetic: differs in rounding
};

struct OpDef {
  const char* name;
  /// "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias,
  ///  float eps=1e-05) -> Tensor". Argument types: Tensor Tensor? Tensor[] Tensor?[] int int? int[]
  /// dim dim? dim[] float float? float[] bool str dtype dtype?. Tensor arguments become operands,
  /// the others attributes, each in the order written; at most one list of tensors, after all other
  /// tensor arguments. A dim is an integer or a symbolic size.
  const char* schema;
  /// Types of all results. The node has operands and attributes, no results yet.
  Result<std::vector<TensorType>> (*infer)(const Node& node);
  /// Null when no result dimension depends on a single element of an operand's dimension.
  AxisMap (*axes)(const Node& node);
  /// Computes the results on concrete tensors; defines what the operator means.
  Status (*reference)(RefCall& call);
  Accuracy accuracy = Accuracy::kExact;
  /// The two first operands may be swapped.
  bool commutative = false;
  /// Multiply-adds of one evaluation at the upper bounds of dynamic sizes; null means none worth
  /// counting.
  int64_t (*multiply_adds)(const Node& node) = nullptr;
};

enum class ArgKind {
  kTensor,
  kTensorList,
  kInt,
  kInts,
  kDim,
  kDims,
  kFloat,
  kFloats,
  kBool,
  kString,
  kDType,
};

struct SchemaArg {
  std::string name;
  ArgKind kind = ArgKind::kTensor;
  bool optional = false;  ///< may be None (for a list of tensors: its members may be)
  bool has_default = false;
  Attr default_value;
  int index = 0;  ///< position among the operands or among the attributes
};

/// The parsed form of OpDef::schema.
struct Schema {
  std::vector<SchemaArg> args;
  int num_operands = 0;  ///< fixed tensor arguments, without the members of a list
  int num_attrs = 0;
  int num_results = 0;
  bool has_tensor_list = false;

  const SchemaArg* find(std::string_view name) const;
};

/// Parsed once and kept; thread-safe. A malformed schema is our mistake (DH_CHECK).
const Schema& schema_of(const OpDef& op);

/// Finds an operator by name, or null. The text parser and the builder of generic code take one.
using OpLookup = const OpDef* (*)(std::string_view name);

}  // namespace downhaul

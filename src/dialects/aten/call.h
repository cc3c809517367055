#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "dialects/aten/aliases.h"
#include "dialects/aten/sym.h"
#include "formats/pt2/pt2.h"
#include "ir/graph.h"
#include "ops/ops.h"

/// What the functions that raise one overload work with.
namespace downhaul::aten {

class Call;
struct ParsedRow;

/// What a node of the program computes: nothing, one tensor with a storage of its own, several such
/// tensors, views of existing tensors, or a scalar. Several results are in the overload's order
/// (members of a list count); results that are missing at the end may not be used by the program.
using Out =
    std::variant<std::monostate, Value*, std::vector<Value*>, View*, std::vector<View*>, Sym>;
using Raise = Out (*)(Call&);

/// A Python number among the arguments.
struct Number {
  enum class Kind { kBool, kInt, kFloat };
  Kind kind = Kind::kInt;
  int64_t i = 0;  ///< kBool, kInt
  double f = 0;   ///< every kind
  /// Set when it is a size that is not static.
  std::optional<Dim> symbolic;
  static Number of(int64_t v) { return {Kind::kInt, v, static_cast<double>(v), {}}; }
  static Number of(double v) { return {Kind::kFloat, 0, v, {}}; }
};
/// An argument that may be a tensor or a number.
using Operand = std::variant<Value*, Number>;

/// Null-safe looks at values that an earlier error has left empty.
int64_t rank_of(const Value* v);
Shape dims_of(const Value* v);
DType dtype_of(const Value* v);

std::optional<DType> to_dtype(pt2::ScalarType type);

/// The element type of an operation on these operands: torch's promotion. Tensors of rank 1 and
/// more outrank those of rank 0, which outrank numbers, unless the lower rank is of a higher
/// category (bool < integer < float).
DType result_type(std::span<const Operand> operands);

/// The names that a graph or subgraph defines.
struct Scope {
  using Entity = std::variant<std::monostate, View*, Sym>;
  const pt2::Graph* graph = nullptr;
  std::unordered_map<std::string_view, Entity> names;
};

/// Services of the importer that a Call needs.
class CallContext {
 public:
  virtual ~CallContext() = default;
  /// What `name` stands for; null after an error.
  virtual const Scope::Entity* lookup(const std::string& name, Builder& b) = 0;
  /// Null when the archive says nothing about it.
  virtual const pt2::TensorMeta* meta(const std::string& name) = 0;
  virtual Aliases& aliases() = 0;
  /// A rank-0 constant, one for each dtype and value.
  virtual Value* scalar(DType dtype, const Number& number) = 0;
  /// The content of `v` when it does not depend on an input. Remembers that it was looked at.
  virtual std::optional<Tensor> fold(Value* v) = 0;
};

/// One node of the program while it is raised: its arguments by name, and a builder at the end of
/// the graph. The first error sticks; after it every accessor returns something harmless (null
/// values, empty lists, zero), and whatever is built is null, so that a function needs no checks
/// except before it takes a value apart without the null-safe functions here.
class Call {
 public:
  Call(CallContext& context, const pt2::Node& node, const ParsedRow& row, Builder& b)
      : context_(context), node_(node), row_(row), b_(b) {}

  Builder& builder() { return b_; }
  bool ok() const { return b_.status().ok(); }
  void fail(std::string message) { b_.fail(unsupported(std::move(message))); }
  void invalid(std::string message) { b_.fail(invalid_graph(std::move(message))); }

  // --- arguments; `name` must be in the row's schema
  /// Given, or defaulted, and not None.
  bool has(std::string_view name);
  View* view(std::string_view name);
  Value* tensor(std::string_view name);
  /// Null when None.
  Value* maybe_tensor(std::string_view name);
  /// Null members where None.
  std::vector<Value*> tensors(std::string_view name);
  Operand operand(std::string_view name);
  Number number(std::string_view name);
  std::optional<Number> maybe_number(std::string_view name);
  int64_t i(std::string_view name);
  std::optional<int64_t> maybe_i(std::string_view name);
  Dim dim(std::string_view name);
  std::optional<Dim> maybe_dim(std::string_view name);
  double f(std::string_view name);
  std::optional<double> maybe_f(std::string_view name);
  bool b(std::string_view name);
  std::string s(std::string_view name);
  /// A single number counts as a list of one.
  Ints ints(std::string_view name);
  Dims dims(std::string_view name);
  Floats floats(std::string_view name);
  /// Dtypes that the IR has; another is an error. nullopt when None.
  std::optional<DType> dtype(std::string_view name);
  /// `name` as an axis of a tensor of `rank`, non-negative. Rank 0 has the axis 0.
  int64_t axis(std::string_view name, int64_t rank);
  /// A list of axes; missing or empty means all.
  Ints axes(std::string_view name, int64_t rank);
  int64_t wrap_axis(int64_t axis, int64_t rank);
  /// The argument's tensor as the archive describes it, or null.
  const pt2::TensorMeta* meta(std::string_view name);
  const pt2::TensorMeta* result_meta();
  const pt2::Argument& argument(std::string_view name);
  std::vector<Sym> syms();  ///< all arguments, as scalars

  // --- nodes
  /// The operator that the row names.
  const OpDef& row_op() const;
  const ParsedRow& row() const { return row_; }
  Value* op(const OpDef& op, std::vector<Value*> operands, const NamedAttrs& attrs = {}) {
    return b_.op(op, std::move(operands), attrs);
  }
  std::vector<Value*> op_multi(const OpDef& op, std::vector<Value*> operands,
                               const NamedAttrs& attrs = {});
  Value* cast(Value* v, DType dtype);
  /// A number as a rank-0 tensor of `dtype`.
  Value* scalar(DType dtype, const Number& number);
  Value* scalar(DType dtype, double value) { return scalar(dtype, Number::of(value)); }
  /// An operand as a tensor of `dtype`.
  Value* as_tensor(const Operand& operand, DType dtype);
  Value* constant(Tensor t) { return b_.constant(std::move(t)); }
  Value* reshape(Value* v, Dims shape);
  Value* permute(Value* v, Ints dims);
  Value* expand(Value* v, Dims size);
  Value* slice(Value* v, int64_t dim, Dim start, Dim end, int64_t step = 1);
  Value* binary(const OpDef& o, Value* x, Value* y) { return op(o, {x, y}); }
  Value* add(Value* x, Value* y) { return op(ops::kAdd, {x, y}); }
  Value* sub(Value* x, Value* y) { return op(ops::kSub, {x, y}); }
  Value* mul(Value* x, Value* y) { return op(ops::kMul, {x, y}); }
  /// Content that does not depend on an input, or nullopt.
  std::optional<Tensor> fold(Value* v) { return context_.fold(v); }

  // --- views
  /// Another view of `parent` that `value` was computed for, or the parent itself.
  View* derive(View* parent, Value* value);
  View* reshape_view(View* v, Dims shape);
  View* permute_view(View* v, Ints dims);
  View* slice_view(View* v, int64_t dim, Dim start, Dim end, int64_t step = 1);
  Value* read(View* v) { return v == nullptr ? nullptr : context_.aliases().read(v, b_); }

 private:
  std::string name_hint() const;
  template <typename T>
  std::optional<T> scalar_argument(std::string_view name, std::string_view wanted);
  const Scope::Entity* entity(const std::string& name) { return context_.lookup(name, b_); }
  Value* value_named(const std::string& name);
  std::optional<Sym> sym(const pt2::Argument& argument);
  void wrong_kind(std::string_view name, std::string_view wanted);

  CallContext& context_;
  const pt2::Node& node_;
  const ParsedRow& row_;
  Builder& b_;
};

}  // namespace downhaul::aten

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dialects/edge/call.h"
#include "ops/ops.h"

/// The table "stock kernel ↔ IR operator" and what its rows are made of. Inside this folder only.
namespace downhaul::edge {

/// A set of element types, one bit per DType.
using DTypes = uint16_t;
constexpr DTypes bit(DType d) { return static_cast<DTypes>(1u << static_cast<unsigned>(d)); }
constexpr DTypes kFloats =
    bit(DType::kF16) | bit(DType::kBF16) | bit(DType::kF32) | bit(DType::kF64);
constexpr DTypes kUpToF32 = bit(DType::kF16) | bit(DType::kBF16) | bit(DType::kF32);
constexpr DTypes kUnsigned = bit(DType::kU8);
constexpr DTypes kInts =
    bit(DType::kU8) | bit(DType::kI8) | bit(DType::kI16) | bit(DType::kI32) | bit(DType::kI64);
constexpr DTypes kReal = kFloats | kInts;
constexpr DTypes kBool = bit(DType::kBool);
constexpr DTypes kAny = kReal | kBool;

/// Reads the arguments of a call that came from a file. The first argument that is not what the
/// kernel's schema says makes the builder fail; then every read gives a neutral value.
class Raising {
 public:
  Raising(const KernelCall& c, Builder& builder) : call(c), b(builder) {}

  const KernelCall& call;
  Builder& b;

  bool ok() const { return b.status().ok(); }
  size_t size() const { return call.args.size(); }
  const TensorType& out(size_t i = 0) const { return call.outs[i]; }
  bool is_none(size_t i) const;
  Value* tensor(size_t i);
  Value* tensor_or_null(size_t i);
  std::vector<Value*> tensors(size_t i);  ///< members may be null when the list says so
  Dim dim(size_t i);
  int64_t integer(size_t i);
  Dims dims(size_t i);
  Ints ints(size_t i);
  double number(size_t i);  ///< a float, int or bool
  bool flag(size_t i);
  std::string text(size_t i);
  Floats floats(size_t i);
  /// A dimension number of a tensor of this rank, made non-negative.
  int64_t axis(size_t i, int64_t rank);
  /// A number as rank-0 constant of `dtype`.
  Value* scalar(size_t i, DType dtype);

  Value* cast(Value* v, DType dtype);
  /// Null, after making the builder fail with `reason`.
  Value* refuse(std::string_view reason);
};

using Values = std::vector<Value*>;
using EmitFunction = Result<KernelCall> (*)(const Node& node);
using RaiseFunction = Values (*)(Raising& r);

/// What a raised operand's element type becomes, where kernels promote and the IR does not.
enum class Promote : uint8_t {
  kNone,
  kToOut,     ///< tensor operands are cast to the type of the output
  kTogether,  ///< the first two tensor operands are cast to their common type
};

/// One spelling. Either text, read in both directions:
///
///     {"softmax(self, dim)", "aten::_softmax.out(self, dim, false)"}
///
/// Names are arguments of the operator. A literal on the left demands that value of an attribute;
/// on the right it is written and demanded; `?literal` is written, and anything is accepted.
/// `scalar other` on the right: the operand is a constant with one element, written as a number.
/// Or a pair of functions: then both columns are names only. Without `emit` a kernel is only read.
struct Row {
  const char* op;
  const char* kernel;
  DTypes dtypes = kAny;  ///< of the first tensor operand
  Promote promote = Promote::kNone;
  EmitFunction emit = nullptr;
  RaiseFunction raise = nullptr;
  int num_outputs = 1;  ///< output tensors; kListOutput for a kernel that fills a list
};

std::span<const Row> table();

/// Emission and raising of a text row. `emit_text` gives kUnsupported with a reason when the row
/// does not apply.
Result<KernelCall> emit_text(const Row& row, const Node& node);
Values raise_text(const Row& row, Raising& r);

/// The name in front of the parenthesis, if there is one.
std::string_view name_of(const char* spelling);

// --- for emit functions
inline Arg none() { return {}; }
inline Arg integer(Dim d) { return Arg(std::move(d)); }
inline Arg number(double v) { return Arg(v); }
inline Arg flag(bool v) { return Arg(v); }
inline Arg text(std::string v) { return Arg(std::move(v)); }
inline Arg tensor(Value* v) { return v == nullptr ? Arg() : Arg(v); }
Arg ints(const Ints& v);
inline Arg dims(Dims v) { return Arg(std::move(v)); }
/// A number that is exact for `dtype`: a float, an int or a bool.
Arg scalar(double value, DType dtype);
/// The call with the node's result types as outputs.
KernelCall call_of(const Node& node, std::string kernel, std::vector<Arg> args);
/// "argmax: <reason>"
Status no_kernel(const Node& node, std::string_view reason);

/// True when the operand is a constant of one element; `value` receives it as a number argument.
bool is_scalar_constant(const Value* v, Arg* value = nullptr);

}  // namespace downhaul::edge

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/status.h"

/// A `.pt2` archive as structs: one per thing of the file, with the file's own names. What an
/// operator means is not known here. Layout and encoding: README.md in this folder.
namespace downhaul::pt2 {

/// Numbers of the archive (not those of c10).
enum class ScalarType : uint8_t {
  kUnknown = 0,
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kComplex32 = 9,
  kComplex64 = 10,
  kComplex128 = 11,
  kBool = 12,
  kBfloat16 = 13,
  kUint16 = 28,
  kFloat8E4m3fn = 29,
  kFloat8E5m2 = 30,
  kFloat8E4m3fnuz = 31,
  kFloat8E5m2fnuz = 32,
  kFloat8E8m0fnu = 33,
  kUint32 = 34,
  kUint64 = 35,
};
/// "float32"; "unknown" for numbers without a meaning.
std::string_view name(ScalarType type);
/// Bytes of one element; 0 for kUnknown.
uint32_t item_size(ScalarType type);

enum class Layout : uint8_t {
  kUnknown = 0,
  kSparseCoo = 1,
  kSparseCsr = 2,
  kSparseCsc = 3,
  kSparseBsr = 4,
  kSparseBsc = 5,
  kMkldnn = 6,
  kStrided = 7,
};
enum class MemoryFormat : uint8_t {
  kUnknown = 0,
  kContiguous = 1,
  kChannelsLast = 2,
  kChannelsLast3d = 3,
  kPreserve = 4,
};
struct Device {
  std::string type;
  std::optional<int64_t> index;
};

/// A symbolic expression, parsed from its call form. Symbols keep their name only; their bounds are
/// in Program::range_constraints.
struct SymExpr {
  enum class Kind : uint8_t { kInteger, kSymbol, kCall };
  Kind kind = Kind::kInteger;
  int64_t integer = 0;
  /// Symbol: "s77", "u0". Call: the head, "Add", "Mul", "FloorDiv", "Max", "GreaterThan", ….
  /// Rational(1, 2) is a call with two integers.
  std::string name;
  std::vector<SymExpr> args;
};
/// "4*s77" as "Mul(4, s77)"; for messages.
std::string to_string(const SymExpr& expr);
/// Errors: kInvalidFile when `text` is not a nested call expression, or nests deeper than 64.
Result<SymExpr> parse_sym_expr(std::string_view text);

/// One size, stride or offset, or the value of a SymInt.
struct Dim {
  /// The number itself, or for a symbolic one the example value it had at export ("hint"), if
  /// known.
  std::optional<int64_t> value;
  /// Set for a symbolic one whose expression was understood.
  std::shared_ptr<const SymExpr> expr;
  bool symbolic = false;
};

struct TensorMeta {
  ScalarType dtype = ScalarType::kUnknown;
  Layout layout = Layout::kStrided;
  std::vector<Dim> sizes;
  std::vector<Dim> strides;  ///< in elements
  Dim storage_offset;        ///< in elements
};

/// Alternatives of an Argument. A *Ref names a value of the graph; where both a name and a literal
/// are possible, the name is empty for a literal.
struct None {};
struct TensorRef {
  std::string name;
};
struct TensorList {
  std::vector<std::string> names;
};
struct OptionalTensorList {
  std::vector<std::optional<std::string>> names;
};
struct NestedTensorList {
  std::vector<std::vector<std::string>> names;
};
struct SymIntArg {
  std::string name;
  int64_t value = 0;
};
struct SymFloatArg {
  std::string name;
  double value = 0;
};
struct SymBoolArg {
  std::string name;
  bool value = false;
};
struct CustomObject {
  std::string name;
  std::string class_fqn;
};
struct Operator {
  std::string name;
};
struct Complex {
  double real = 0;
  double imag = 0;
};
struct Graph;
struct GraphArg {
  std::string name;
  std::shared_ptr<const Graph> graph;
};
struct StringMap;
/// An alternative that this reader does not know, by its name in the file.
struct UnknownArg {
  std::string alternative;
};

/// as_optional_tensor arrives as TensorRef or None.
using Argument =
    std::variant<None, TensorRef, TensorList, OptionalTensorList, NestedTensorList, bool, int64_t,
                 double, std::string, std::vector<bool>, std::vector<int64_t>, std::vector<double>,
                 std::vector<std::string>, std::vector<std::vector<int64_t>>,
                 std::vector<std::vector<double>>, SymIntArg, std::vector<SymIntArg>, SymFloatArg,
                 std::vector<SymFloatArg>, SymBoolArg, std::vector<SymBoolArg>, ScalarType,
                 MemoryFormat, Layout, Device, GraphArg, CustomObject, Operator, Complex,
                 std::shared_ptr<const StringMap>, UnknownArg>;

struct StringMap {
  std::vector<std::pair<std::string, Argument>> entries;
};

/// "tensor", "ints", "sym_ints", …: the alternative's name in the file without `as_`, for messages.
std::string_view alternative_name(const Argument& argument);

enum class ArgumentKind : uint8_t { kUnknown = 0, kPositional = 1, kKeyword = 2 };

struct NamedArgument {
  std::string name;  ///< the operator schema's argument name; "" for higher-order nodes
  Argument value;
  ArgumentKind kind = ArgumentKind::kUnknown;
};

struct Node {
  std::string target;  ///< "torch.ops.aten.linear.default", "_operator.mul", …
  std::string name;    ///< "" in archives of older writers
  /// Arguments left at their default are absent.
  std::vector<NamedArgument> inputs;
  /// One per result; a list result is one TensorList.
  std::vector<Argument> outputs;
  /// Index into Program::module_stacks; -1 when the file has none.
  int32_t module_stack = -1;

  /// nullptr when absent.
  const Argument* find(std::string_view argument) const;
};

struct Graph {
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<Node> nodes;  ///< in execution order
  /// Every tensor value: inputs, node outputs, list members.
  std::unordered_map<std::string, TensorMeta> tensor_values;
  std::unordered_map<std::string, Dim> sym_int_values;
  std::unordered_map<std::string, Dim> sym_bool_values;  ///< value 0 or 1
  /// Number, or nullopt for a symbolic one.
  std::unordered_map<std::string, std::optional<double>> sym_float_values;
  bool is_single_tensor_return = false;
};

struct InputSpec {
  enum class Kind : uint8_t {
    kParameter,
    kBuffer,
    kTensorConstant,
    kUserInput,
    kConstantInput,  ///< a plain value fixed at export
    kCustomObject,
    kToken,
  };
  Kind kind = Kind::kUserInput;
  /// The graph input: a TensorRef for parameters, buffers and constants, anything for user inputs;
  /// the fixed value for kConstantInput.
  Argument arg;
  /// Dotted name in the archive's weights or constants ("encoder.0.weight"); the input's name for
  /// kConstantInput; "" for user inputs.
  std::string target;
  bool persistent = true;  ///< buffers
};

struct OutputSpec {
  enum class Kind : uint8_t {
    kUserOutput,
    kBufferMutation,
    kParameterMutation,
    kUserInputMutation,
    kLossOutput,
    kGradientToParameter,
    kGradientToUserInput,
    kToken,
  };
  Kind kind = Kind::kUserOutput;
  Argument arg;
  /// Buffer, parameter or user-input name that is written; "" for user outputs.
  std::string target;
};

struct Range {
  std::optional<int64_t> min;
  std::optional<int64_t> max;
};

/// Shape of nested inputs or outputs.
struct TreeSpec {
  enum class Kind : uint8_t { kLeaf, kTuple, kList, kDict, kNamedTuple, kOther };
  Kind kind = Kind::kLeaf;
  std::string type;               ///< "builtins.dict", "" for a leaf
  std::vector<std::string> keys;  ///< as many as children, or empty where nothing is named
  std::vector<TreeSpec> children;
};

/// One module of the exported program that a node came from, outermost first.
struct ModuleScope {
  std::string fqn;   ///< "encoder.layer.0", "" for the model itself
  std::string type;  ///< "torch.nn.modules.linear.Linear"
};
std::vector<ModuleScope> parse_module_stack(std::string_view text);

/// One exported program.
struct Program {
  std::string name;  ///< "model" unless the package names it otherwise
  Graph graph;
  std::vector<InputSpec> inputs;    ///< one per graph input, same order
  std::vector<OutputSpec> outputs;  ///< one per graph output, same order
  /// Symbol ("s77") or expression text ("4*s77") to bounds.
  std::unordered_map<std::string, Range> range_constraints;
  TreeSpec input_tree;  ///< (args tuple, kwargs dict)
  TreeSpec output_tree;
  std::vector<std::string> forward_arg_names;
  /// A name for every user input (constant inputs included) and user output, in signature order.
  /// Inputs: the argument of forward(), with ".key" or ".0" behind it when nested. Outputs: the
  /// keys of nested dictionaries ("aux.0"). "" where the tree gives none (a bare tensor, a member
  /// of a tuple), and everywhere when the file has no tree.
  std::vector<std::string> user_input_names;
  std::vector<std::string> user_output_names;
  /// "TRAINING" (composite and in-place operators) or "ATEN" (functional core).
  std::vector<std::string> verifiers;
  int64_t schema_major = 0;
  int64_t schema_minor = 0;
  std::string torch_version;
  std::vector<std::pair<std::string, int64_t>> opset_version;
  std::vector<std::string> guards_code;
  /// Distinct module stacks; text for parse_module_stack.
  std::vector<std::string> module_stacks;
};

/// One stored block of bytes. Tensors that name the same payload are tied or views of each other.
struct Payload {
  std::string entry;  ///< entry name in the archive
  Bytes bytes;        ///< inside the mapped file, or inside `inflated`
  /// Where `bytes` begin in the mapped file; nullopt when the archive had them compressed.
  std::optional<uint64_t> file_offset;
  /// Stated checksum of exactly these bytes. Not verified.
  std::optional<uint32_t> crc32;
  std::shared_ptr<const std::vector<uint8_t>> inflated;
};

/// A strided view of a payload. Checked: every element lies inside the payload, nothing overflows.
struct StoredTensor {
  uint32_t payload = 0;  ///< index into Archive::payloads
  ScalarType dtype = ScalarType::kUnknown;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;  ///< in elements, >= 0
  int64_t storage_offset = 0;    ///< in elements
};

struct Model {
  Program program;
  /// By dotted name: parameters, buffers and tensor constants.
  std::unordered_map<std::string, StoredTensor> tensors;
};

/// A whole archive. Payload bytes stay in the mapped file and are not touched by reading.
struct Archive {
  std::shared_ptr<const MappedFile> file;
  std::vector<Model> models;  ///< at least one, in order of their names
  std::vector<Payload> payloads;
  std::vector<std::string> warnings;  ///< one line each: extra weights, unreachable bytes, …

  /// The only model, or the one called `name`. Errors: kInvalidArgument listing the names.
  Result<const Model*> model(std::string_view name = {}) const;
};

/// Reads the archive at `path`: 2.9 to 2.14 archives, nested torch.save parts (2.8), flat archives
/// (up to 2.7); schema major 8. The graph is checked: every value is defined once and before its
/// use, every output exists, signature and graph agree, every weight that is named exists.
/// Errors: kInvalidFile, kUnsupported (other majors, big-endian, pickled objects), kNotFound, kIo.
Result<Archive> read_pt2(const std::string& path);
Result<Archive> read_pt2(std::shared_ptr<const MappedFile> file);

/// Compares the stated checksum of each payload with its bytes (reads the whole file once, by plain
/// reads, not through the map). Errors: kInvalidFile naming the entry.
Status verify_payloads(const Archive& archive);

}  // namespace downhaul::pt2

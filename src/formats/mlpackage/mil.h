#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// A Core ML program (MIL, the model intermediate language) and what is said about it, as plain
/// structs. Field names follow the file's messages; README.md in this folder has the layout.
namespace downhaul::mil {

/// Element types by their number in the file.
enum class DType : int32_t {
  kUnused = 0,
  kBool = 1,
  kString = 2,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kBF16 = 13,
  kI8 = 21,
  kI16 = 22,
  kI32 = 23,
  kI64 = 24,
  kI4 = 25,
  kU8 = 31,
  kU16 = 32,
  kU32 = 33,
  kU64 = 34,
  kU4 = 35,
  kU2 = 36,
  kU1 = 37,
  kU6 = 38,
  kU3 = 39,
};

/// "fp16", "int32", …, as `cast` spells them; "?" for a number that is no DType.
std::string_view dtype_name(DType dtype);
/// Bits of one element; 0 for strings and numbers that are no DType.
int bits_of(DType dtype);

struct Type {
  enum class Kind { kTensor, kList, kTuple, kDictionary, kState };
  Kind kind = Kind::kTensor;
  DType dtype = DType::kUnused;               ///< of a tensor
  std::vector<std::optional<int64_t>> shape;  ///< of a tensor; nullopt: unknown. Scalar: empty
  /// Of a list its element, of a tuple its members, of a dictionary key and value, of a state what
  /// it wraps.
  std::vector<Type> parts;
  bool operator==(const Type&) const = default;
};

/// Place of a blob's *metadata* in the weight file.
struct BlobRef {
  std::string file;  ///< as written, "@model_path/weights/weight.bin"
  uint64_t offset = 0;
  bool operator==(const BlobRef&) const = default;
};

/// A compile-time value. Elements of tensors are bytes, little-endian and row-major in the declared
/// type (sub-byte types packed, low bits first; bool one byte), however the file holds them.
struct Value {
  Type type;
  std::variant<std::vector<uint8_t>, std::vector<std::string>, BlobRef, std::vector<Value>> content;
  bool operator==(const Value&) const = default;
};

struct NamedType {
  std::string name;
  Type type;
  bool operator==(const NamedType&) const = default;
};

/// The name of an earlier result, block input or const; or an inline value.
using Binding = std::variant<std::string, Value>;

/// One input of an operation; several bindings for `values` of concat and einsum.
struct Argument {
  std::string name;
  std::vector<Binding> bindings;
  bool operator==(const Argument&) const = default;
};

struct Block;

struct Operation {
  std::string type;              ///< "conv"; "const" has no inputs
  std::vector<Argument> inputs;  ///< sorted by name
  std::vector<NamedType> outputs;
  std::vector<Block> blocks;
  std::vector<std::pair<std::string, Value>> attributes;  ///< `name`; of const also `val`
  const Argument* input(std::string_view name) const;     ///< null when absent
  const Value* attribute(std::string_view name) const;    ///< null when absent
};

struct Block {
  std::vector<NamedType> inputs;  ///< of nested blocks
  std::vector<std::string> outputs;
  std::vector<Operation> operations;
};

struct Function {
  std::string name;  ///< "main"
  std::vector<NamedType> inputs;
  std::string opset;  ///< "CoreML5" (iOS 15) to "CoreML8" (iOS 18)
  Block block;        ///< the specialization of that opset
};

/// An input or output of the model as its users see it.
struct Feature {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::vector<int64_t>> enumerated_shapes;  ///< empty: only `shape`, or `ranges`
  std::vector<std::pair<int64_t, int64_t>> ranges;      ///< by axis; upper bound -1: none
  bool optional = false;
};

/// One function's interface; files of version 9 and later may have several.
struct FunctionDescription {
  std::string name;
  std::vector<Feature> inputs, outputs, states;
};

struct Model {
  int32_t specification_version = 6;
  std::vector<Feature> inputs, outputs, states;  ///< of the only function; else `functions`
  std::vector<FunctionDescription> functions;
  std::string default_function;
  std::string short_description, version, author, license;
  std::vector<std::pair<std::string, std::string>> user_defined;  ///< sorted by key
  std::vector<Function> program;                                  ///< functions, sorted by name
};

}  // namespace downhaul::mil

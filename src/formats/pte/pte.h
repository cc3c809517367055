#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/status.h"

/// The ExecuTorch program file (`.pte`, identifier ET12) as plain structs. Byte layout: README.md
/// in this folder. Field names follow the file's schema where a reader of both profits from it.
namespace downhaul::pte {

/// Element types by their number in the file.
enum class ScalarType : int8_t {
  kByte = 0,
  kChar = 1,
  kShort = 2,
  kInt = 3,
  kLong = 4,
  kHalf = 5,
  kFloat = 6,
  kDouble = 7,
  kBool = 11,
  kQInt8 = 12,
  kQUInt8 = 13,
  kQInt32 = 14,
  kBFloat16 = 15,
  kQUInt4x2 = 16,
  kQUInt2x4 = 17,
  kBits16 = 22,
  kFloat8E5M2 = 23,
  kFloat8E4M3FN = 24,
  kFloat8E5M2FNUZ = 25,
  kFloat8E4M3FNUZ = 26,
  kUInt16 = 27,
  kUInt32 = 28,
  kUInt64 = 29,
};

/// Bytes of one element; nullopt for a number that is no ScalarType. Packed sub-byte types count
/// one byte, as the stock runtime does.
std::optional<uint64_t> scalar_bytes(ScalarType type);
/// "float32", "int64", ...; "unknown" for a number that is no ScalarType.
std::string_view scalar_name(ScalarType type);

enum class Dynamism : int8_t {
  kStatic = 0,
  kDynamicBound = 1,  ///< sizes are upper bounds
  kDynamicUnbound = 2,
};

/// A place inside a planned buffer. memory_id >= 1.
struct Allocation {
  uint32_t memory_id = 1;
  uint64_t offset = 0;  ///< bytes
  bool operator==(const Allocation&) const = default;
};

/// Which storage a tensor has:
///   data_index > 0, no allocation    constant number data_index
///   data_index = 0, allocation       planned buffer
///   data_index = 0, no allocation    pointer set at run time (un-planned input/output, view
///   result) data_index > 0, allocation       planned, initial content number data_index (mutable
///   state) external_name not empty          data comes from another file, by that name
struct Tensor {
  std::vector<int32_t> sizes;      ///< upper bounds when dynamic
  std::vector<uint8_t> dim_order;  ///< dimensions, outermost first; as long as sizes
  std::optional<Allocation> allocation;
  std::string external_name;
  uint32_t data_index = 0;
  ScalarType dtype = ScalarType::kFloat;
  Dynamism dynamism = Dynamism::kStatic;
  bool requires_grad = false;
  bool operator==(const Tensor&) const = default;
};

/// Bytes of a dense tensor (at its upper bounds); nullopt for a negative size, an unknown dtype, or
/// a product above 2^63-1.
std::optional<uint64_t> tensor_bytes(const Tensor& tensor);

// The kinds of a value. Value ids are positions in Plan::values.
struct Null {
  bool operator==(const Null&) const = default;
};
struct Int {
  int64_t value = 0;
  bool operator==(const Int&) const = default;
};
struct Bool {
  bool value = false;
  bool operator==(const Bool&) const = default;
};
struct Double {
  double value = 0;
  bool operator==(const Double&) const = default;
};
struct String {
  std::string value;
  bool operator==(const String&) const = default;
};
/// Items are *value ids* of Ints, not integers.
struct IntList {
  std::vector<int64_t> items;
  bool operator==(const IntList&) const = default;
};
/// Items are the numbers themselves.
struct DoubleList {
  std::vector<double> items;
  bool operator==(const DoubleList&) const = default;
};
struct BoolList {
  std::vector<uint8_t> items;  ///< 0 or 1
  bool operator==(const BoolList&) const = default;
};
/// Items are value ids of Tensors that come earlier in the list of values.
struct TensorList {
  std::vector<int32_t> items;
  bool operator==(const TensorList&) const = default;
};
/// As TensorList; an absent element is -1 (or the id of a Null).
struct OptionalTensorList {
  std::vector<int32_t> items;
  bool operator==(const OptionalTensorList&) const = default;
};

/// In the order of the file's union (Null is 1).
using Value = std::variant<Null, Int, Bool, Double, Tensor, String, IntList, DoubleList, BoolList,
                           TensorList, OptionalTensorList>;
/// "Tensor", "IntList", ...
std::string_view kind_name(const Value& value);

/// Runs Plan::operators[op_index]. args: value ids in schema order, outputs last, then one more
/// entry for the return value (not for executorch_prim operators).
struct KernelCall {
  int32_t op_index = 0;
  std::vector<int32_t> args;
  bool operator==(const KernelCall&) const = default;
};
/// Runs Plan::delegates[delegate_index]. args: its inputs, then its outputs.
struct DelegateCall {
  int32_t delegate_index = 0;
  std::vector<int32_t> args;
  bool operator==(const DelegateCall&) const = default;
};
struct MoveCall {
  int32_t from = 0;
  int32_t to = 0;
  bool operator==(const MoveCall&) const = default;
};
/// Continues at `destination` when the condition (a Bool or a bool tensor) is false.
struct JumpFalseCall {
  int32_t condition = 0;
  int32_t destination = 0;  ///< instruction number in this chain; its length means "end"
  bool operator==(const JumpFalseCall&) const = default;
};
struct FreeCall {
  int32_t value = 0;
  bool operator==(const FreeCall&) const = default;
};
/// In the order of the file's union (KernelCall is 1).
using Instruction = std::variant<KernelCall, DelegateCall, MoveCall, JumpFalseCall, FreeCall>;

struct Chain {
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  std::vector<Instruction> instructions;
  bool operator==(const Chain&) const = default;
};

struct Operator {
  std::string name;      ///< "aten::add"
  std::string overload;  ///< "out", may be empty
  /// "aten::add.out": what the runtime looks kernels up by.
  std::string full_name() const;
  bool operator==(const Operator&) const = default;
};

struct CompileSpec {
  std::string key;
  std::vector<uint8_t> value;
  bool operator==(const CompileSpec&) const = default;
};

struct Delegate {
  std::string id;  ///< "XnnpackBackend"
  /// Position in PteFile::payloads when read, the number from PteBuilder::add_payload when written.
  /// Two delegates may share a payload.
  uint32_t payload = 0;
  std::vector<CompileSpec> compile_specs;
  bool operator==(const Delegate&) const = default;
};

/// One entry point ("forward").
struct Plan {
  std::string name;
  std::string encoded_inputs;   ///< JSON pytree spec, may be empty
  std::string encoded_outputs;  ///< JSON pytree spec, may be empty
  std::vector<Value> values;
  std::vector<int32_t> inputs;   ///< value ids
  std::vector<int32_t> outputs;  ///< value ids
  std::vector<Chain> chains;     ///< at least one; the runtime uses the first
  std::vector<Operator> operators;
  std::vector<Delegate> delegates;
  /// Bytes of planned buffer i; element 0 is reserved and 0.
  std::vector<int64_t> non_const_buffer_sizes = {0};
  bool operator==(const Plan&) const = default;
};

struct Program {
  std::vector<Plan> plans;
  bool operator==(const Program&) const = default;
};

/// Bytes [offset, offset + size) of a file.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t size = 0;
  bool operator==(const ByteRange&) const = default;
};

/// What the lengths of a program's storage are, for `verify_program`.
struct StorageLimits {
  /// Bytes available to constant i. Element 0 is the placeholder for "no data".
  std::vector<uint64_t> constants = {0};
  /// The same for initial contents of mutable state.
  std::vector<uint64_t> initial_contents = {0};
  size_t num_payloads = 0;
};

/// Proves that every number in `program` may be used without a further check: value ids, operator,
/// delegate and payload indices, jump targets (none to itself), list members (tensors of a list
/// come before it), sizes, dim orders, constants inside their storage, allocations inside their
/// buffers. Errors: kInvalidFile naming plan and value or instruction; kUnsupported for rank > 16.
Status verify_program(const Program& program, const StorageLimits& limits);

}  // namespace downhaul::pte

namespace downhaul {

/// One stretch of a file. Parts are sorted, do not overlap, and sum to the file.
struct PtePart {
  enum class Kind {
    kHeader,      ///< root offset, identifier, extended header
    kFlatbuffer,  ///< the program without the header
    kConstants,   ///< segment with the constants
    kInitial,     ///< segment with initial contents of mutable state
    kPayload,     ///< segment with a delegate's payload
    kNamedData,   ///< segment with a named blob
    kUnused,      ///< segment that nothing refers to
    kPadding,     ///< between the others
    kTrailing,    ///< after the last segment
  };
  Kind kind = Kind::kPadding;
  pte::ByteRange range;
  /// Position in PteFile::payloads for kPayload and in PteFile::named_data for kNamedData (the
  /// first that refers to the segment), else 0.
  uint32_t index = 0;
};
std::string_view name(PtePart::Kind kind);

/// A named blob and where it lies. It may be a stretch of the constant segment (a tied weight).
struct PteNamedData {
  std::string key;
  pte::ByteRange range;
  bool inside_constants = false;
};

/// A verified file. Everything that refers to bytes does so by range; the accessors give views into
/// the mapped file, valid as long as `file` lives.
struct PteFile {
  std::shared_ptr<const MappedFile> file;
  pte::Program program;

  uint32_t version = 0;                  ///< of the schema
  uint32_t header_length = 0;            ///< of the extended header; 0 when the file has none
  uint64_t program_size = 0;             ///< flatbuffer with header
  uint64_t segment_base = 0;             ///< 0 when there are no segments
  uint64_t segment_data_size = 0;        ///< as the header states; 0 when it does not
  std::vector<pte::ByteRange> segments;  ///< offsets from the start of the file

  /// Constant i by its data_index, from where it starts to where its storage ends (not to where the
  /// tensor ends: the file does not say). Element 0 is empty. Also inline constants of old files.
  std::vector<pte::ByteRange> constants;
  bool inline_constants = false;  ///< old form: constants inside the flatbuffer
  /// The same for initial contents of mutable state.
  std::vector<pte::ByteRange> initial_contents;
  /// Delegate payloads, each once. Also inline payloads of old files.
  std::vector<pte::ByteRange> payloads;
  std::vector<PteNamedData> named_data;
  std::vector<PtePart> parts;

  Bytes bytes(const pte::ByteRange& range) const {
    return file->bytes().subspan(range.offset, range.size);
  }
  /// The bytes of a constant tensor or the initial content of a mutable one: tensor_bytes() long.
  /// nullopt when the tensor has neither.
  std::optional<pte::ByteRange> data_range(const pte::Tensor& tensor) const;
  Bytes payload(const pte::Delegate& delegate) const { return bytes(payloads[delegate.payload]); }
  /// nullopt when there is no such key.
  std::optional<Bytes> find_named_data(std::string_view key) const;
};

/// Reads and verifies a whole file: header, flatbuffer, `verify_program`, segments inside the file
/// and not overlapping (except named data inside the constants). Payloads are opaque here (see
/// formats/xnn/xnn.h). Touches the pages of the flatbuffer only.
/// Errors: kInvalidFile, one line with path, place, expected and found; says what other kind of
/// file it looks like.
Result<PteFile> read_pte(std::shared_ptr<const MappedFile> file);

}  // namespace downhaul

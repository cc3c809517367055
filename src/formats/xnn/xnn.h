#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/status.h"

/// The payload of an XNNPACK delegate (identifiers XN00 and XN01) as plain structs. Byte layout:
/// README.md in this folder.
namespace downhaul {

/// "No value": an absent bias, a value without an external id.
constexpr uint32_t kXnnNoId = 0xffffffffu;

enum class XnnDatatype : int16_t {
  kInvalid = 0,
  kFp32 = 1,
  kFp16 = 2,
  kQInt8 = 3,
  kQUInt8 = 4,
  kQInt32 = 5,
  kQCInt8 = 6,
  kQCInt32 = 7,
  kQCInt4 = 8,
  kQDInt8 = 9,
  kQBInt4 = 10,
  kQPInt8 = 11,
  kInt32 = 12,
  kPFp32 = 13,
  kBf16 = 14,
};
std::string_view name(XnnDatatype type);

// Quantization parameters of a value. Scales are per channel along `channel_dim` of the stored
// layout; they are given inline or as constant `scale_constant` (then `scales` is empty).
struct XnnPerTensor {
  float scale = 1;
  int32_t zero_point = 0;
  bool operator==(const XnnPerTensor&) const = default;
};
struct XnnPerChannel {
  std::vector<float> scales;
  int32_t channel_dim = 0;
  uint32_t scale_constant = 0;  ///< f32 constant, > 0 when used
  uint32_t num_scales = 0;      ///< of the constant
  bool operator==(const XnnPerChannel&) const = default;
};
struct XnnPerTokenDynamic {
  int32_t num_nonbatch_dims = 1;
  bool operator==(const XnnPerTokenDynamic&) const = default;
};
struct XnnPerChannelGroup {
  std::vector<float> scales;  ///< row-major [out, in / group_size]
  int32_t channel_dim = 0;
  int32_t group_size = 32;
  uint32_t scale_constant = 0;  ///< bf16 constant, > 0 when used
  uint32_t num_scales = 0;
  bool operator==(const XnnPerChannelGroup&) const = default;
};
/// In the order of the file's union, after "none".
using XnnQuant = std::variant<std::monostate, XnnPerChannel, XnnPerTensor, XnnPerTokenDynamic,
                              XnnPerChannelGroup>;

/// A tensor inside the payload. Its id is its position in XnnGraph::values.
struct XnnValue {
  static constexpr uint32_t kExternalInput = 1;
  static constexpr uint32_t kExternalOutput = 2;

  XnnDatatype datatype = XnnDatatype::kFp32;
  std::vector<uint32_t> dims;       ///< dense row-major; images NHWC; rank <= 6
  uint32_t constant = 0;            ///< > 0: position in XnnGraph::constants
  uint32_t external_id = kXnnNoId;  ///< position in DelegateCall::args
  uint32_t flags = 0;               ///< kExternalInput or kExternalOutput or 0
  XnnQuant quant;
  bool operator==(const XnnValue&) const = default;
};

/// Node kinds by their number in the file's union.
enum class XnnNodeKind : uint8_t {
  kAdd = 1,
  kFullyConnected = 2,
  kSoftmax = 3,
  kSigmoid = 4,
  kStaticTranspose = 5,
  kClamp = 6,
  kConv2d = 7,
  kDiv = 8,
  kStaticResizeBilinear2D = 9,
  kStaticConstantPad = 10,
  kAvgPooling2d = 11,
  kMinimum = 12,
  kDepthwiseConv2d = 13,
  kMaxPooling2d = 14,
  kMultiply = 15,
  kSubtract = 16,
  kFloor = 17,
  kConvert = 18,
  kGlobalAvgPooling2d = 19,
  kStaticReshape = 20,
  kArgMaxPooling2d = 21,
  kSquareRoot = 22,
  kCeiling = 23,
  kHardswish = 24,
  kLeakyReLU = 25,
  kMaximum = 26,
  kNegate = 27,
  kSquare = 28,
  kELU = 29,
  kAbs = 30,
  kPReLU = 31,
  kConcatenate2 = 32,
  kConcatenate3 = 33,
  kConcatenate4 = 34,
  kStaticSlice = 35,
  kScaledDotProductAttention = 36,
  kBatchMatrixMultiply = 37,
  kConcatenate5 = 38,
  kConvTranspose2d = 39,
  kReciprocalSquareRoot = 40,
  kLog = 41,
  kGelu = 42,
  kTanh = 43,
  kExp = 44,
  kSin = 45,
  kCopy = 46,
  kCos = 47,
};
constexpr size_t kNumXnnNodeKinds = 47;

/// Kinds with the same fields. The comment gives inputs -> outputs and the type in XnnNode::params.
enum class XnnFamily : uint8_t {
  kUnary,           ///< input -> output
  kBinary,          ///< input1, input2 -> output
  kFullyConnected,  ///< input, filter, bias (may be kXnnNoId) -> output
  kConv,            ///< input, filter, bias (may be kXnnNoId) -> output; XnnConv
  kPool,            ///< input -> output; XnnPool
  kArgMaxPool,      ///< input -> value, index; XnnPool without stride and dilation
  kConcat,          ///< 2 to 5 inputs -> output; XnnAxis
  kTranspose,       ///< input -> output; XnnTranspose
  kReshape,         ///< input -> output; XnnReshape
  kSlice,           ///< input -> output; XnnSlice
  kPad,             ///< input -> output; XnnPad
  kResize,          ///< input -> output; XnnResize
  kAlpha,           ///< input -> output; XnnAlpha (leaky relu's slope, ELU's alpha)
  kAttention,       ///< query, key, value, scale, mask -> output
};

/// The table of node kinds: position = number - 1.
struct XnnNodeInfo {
  XnnNodeKind kind;
  std::string_view name;  ///< as in the schema: "XNNAdd"
  XnnFamily family;
  uint8_t num_inputs;
  uint8_t num_outputs;
  bool clamps;    ///< the runtime reads output_min / output_max
  bool runnable;  ///< the runtime of ExecuTorch 1.5.0 accepts it
};
extern const std::array<XnnNodeInfo, kNumXnnNodeKinds> kXnnNodeTable;
inline const XnnNodeInfo& info(XnnNodeKind kind) {
  return kXnnNodeTable[static_cast<size_t>(kind) - 1];
}
/// By schema name; nullopt when unknown.
std::optional<XnnNodeKind> parse_xnn_node_kind(std::string_view name);

struct XnnConv {
  uint32_t padding_top = 0;
  uint32_t padding_right = 0;
  uint32_t padding_bottom = 0;
  uint32_t padding_left = 0;
  uint32_t kernel_height = 0;
  uint32_t kernel_width = 0;
  uint32_t subsampling_height = 0;  ///< stride
  uint32_t subsampling_width = 0;
  uint32_t dilation_height = 0;
  uint32_t dilation_width = 0;
  uint32_t group_input_channels = 0;
  uint32_t group_output_channels = 0;
  uint32_t groups = 0;
  uint32_t adjustment_height = 0;  ///< output padding, transposed only
  uint32_t adjustment_width = 0;
  bool operator==(const XnnConv&) const = default;
};
struct XnnPool {
  uint32_t padding_top = 0;
  uint32_t padding_right = 0;
  uint32_t padding_bottom = 0;
  uint32_t padding_left = 0;
  uint32_t pooling_height = 0;
  uint32_t pooling_width = 0;
  uint32_t stride_height = 0;
  uint32_t stride_width = 0;
  uint32_t dilation_height = 0;  ///< 0 for average pooling
  uint32_t dilation_width = 0;
  bool operator==(const XnnPool&) const = default;
};
struct XnnAxis {
  uint32_t axis = 0;
  bool operator==(const XnnAxis&) const = default;
};
struct XnnTranspose {
  std::vector<uint32_t> perm;
  bool operator==(const XnnTranspose&) const = default;
};
struct XnnReshape {
  std::vector<uint32_t> new_shape;  ///< at most one 0: inferred
  bool operator==(const XnnReshape&) const = default;
};
struct XnnSlice {
  std::vector<uint32_t> offsets;
  std::vector<uint32_t> sizes;
  bool operator==(const XnnSlice&) const = default;
};
struct XnnPad {
  std::vector<uint32_t> pre;
  std::vector<uint32_t> post;
  float value = 0;
  bool operator==(const XnnPad&) const = default;
};
struct XnnResize {
  uint32_t new_height = 0;
  uint32_t new_width = 0;
  bool operator==(const XnnResize&) const = default;
};
struct XnnAlpha {
  float alpha = 0;
  bool operator==(const XnnAlpha&) const = default;
};
using XnnParams = std::variant<std::monostate, XnnConv, XnnPool, XnnAxis, XnnTranspose, XnnReshape,
                               XnnSlice, XnnPad, XnnResize, XnnAlpha>;

struct XnnNode {
  XnnNodeKind kind = XnnNodeKind::kAdd;
  std::vector<uint32_t> inputs;   ///< value ids, in the order of XnnFamily
  std::vector<uint32_t> outputs;  ///< value ids
  XnnParams params;
  uint32_t flags = 0;
  uint32_t debug_handle = 65535;  ///< 65535: unknown
  float output_min = -std::numeric_limits<float>::infinity();
  float output_max = std::numeric_limits<float>::infinity();
  bool operator==(const XnnNode&) const = default;
};

/// A constant: a name in the program's named data, or bytes inside the payload.
struct XnnConstant {
  std::string named_key;  ///< empty for inline bytes
  uint64_t size = 0;      ///< bytes
  /// Inline bytes, or what the key resolved to. Not owned. Empty for a key that was not resolved.
  Bytes data;
};

struct XnnGraph {
  std::vector<XnnValue> values;
  std::vector<XnnNode> nodes;        ///< topological order
  std::vector<uint32_t> input_ids;   ///< external inputs by external_id: 0 .. n-1
  std::vector<uint32_t> output_ids;  ///< external outputs by external_id: n .. n+m-1
  std::vector<XnnConstant> constants = std::vector<XnnConstant>(1);  ///< entry 0 is a dummy
};

/// Bytes that a constant value of these dims and datatype occupies; nullopt on overflow or for a
/// datatype that no constant can have. Two 4-bit values share a byte, rows padded to whole bytes.
std::optional<uint64_t> xnn_constant_bytes(const XnnValue& value);

/// The scales of a value, whether inline or in a constant with data: per channel, per channel
/// group, or one per tensor. Errors: kNotFound when their constant was not resolved.
Result<std::vector<float>> xnn_scales(const XnnGraph& graph, const XnnValue& value);

/// Proves that every number may be used without a further check: value and constant ids, nodes in
/// topological order with each internal value written once, ranks <= 6, parameter lengths equal to
/// ranks, external ids a permutation in input-then-output order, constants long enough,
/// quantization (scale counts, finite scales > 0, zero points in range). Does not judge what the
/// runtime can run. Errors: kInvalidFile naming the node or value.
Status verify_xnn_graph(const XnnGraph& graph);

/// Finds named data of the program; nullopt when there is no such key.
using XnnNamedLookup = std::function<std::optional<Bytes>(std::string_view key)>;

/// Reads and verifies a payload. Ids are renumbered so that they are positions. `lookup` resolves
/// named constants; without it they stay unresolved. Views in the result point into `payload` and
/// into what `lookup` returned.
/// Errors: kInvalidFile.
Result<XnnGraph> read_xnn_payload(Bytes payload, const XnnNamedLookup& lookup = nullptr);

/// The payload's bytes; constants without a key go inline. Verifies first.
/// Errors: those of verify_xnn_graph, as kInvalidGraph.
Result<std::vector<uint8_t>> write_xnn_payload(const XnnGraph& graph);

}  // namespace downhaul

#include "formats/xnn/xnn.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/strings.h"

namespace downhaul {
namespace {

using F = XnnFamily;
using K = XnnNodeKind;

}  // namespace

// clang-format off
constexpr std::array<XnnNodeInfo, kNumXnnNodeKinds> kXnnNodeTable = {{
    // kind, name, family, inputs, outputs, clamps, runnable
    {K::kAdd, "XNNAdd", F::kBinary, 2, 1, true, true},
    {K::kFullyConnected, "XNNFullyConnected", F::kFullyConnected, 3, 1, true, true},
    {K::kSoftmax, "XNNSoftmax", F::kUnary, 1, 1, false, true},
    {K::kSigmoid, "XNNSigmoid", F::kUnary, 1, 1, false, true},
    {K::kStaticTranspose, "XNNStaticTranspose", F::kTranspose, 1, 1, false, true},
    {K::kClamp, "XNNClamp", F::kUnary, 1, 1, true, true},
    {K::kConv2d, "XNNConv2d", F::kConv, 3, 1, true, true},
    {K::kDiv, "XNNDiv", F::kBinary, 2, 1, true, true},
    {K::kStaticResizeBilinear2D, "XNNStaticResizeBilinear2D", F::kResize, 1, 1, false, true},
    {K::kStaticConstantPad, "XNNStaticConstantPad", F::kPad, 1, 1, false, true},
    {K::kAvgPooling2d, "XNNAvgPooling2d", F::kPool, 1, 1, true, true},
    {K::kMinimum, "XNNMinimum", F::kBinary, 2, 1, false, true},
    {K::kDepthwiseConv2d, "XNNDepthwiseConv2d", F::kConv, 3, 1, true, true},
    {K::kMaxPooling2d, "XNNMaxPooling2d", F::kPool, 1, 1, true, true},
    {K::kMultiply, "XNNMultiply", F::kBinary, 2, 1, true, true},
    {K::kSubtract, "XNNSubtract", F::kBinary, 2, 1, true, true},
    {K::kFloor, "XNNFloor", F::kUnary, 1, 1, false, true},
    {K::kConvert, "XNNConvert", F::kUnary, 1, 1, false, true},
    {K::kGlobalAvgPooling2d, "XNNGlobalAvgPooling2d", F::kUnary, 1, 1, true, true},
    {K::kStaticReshape, "XNNStaticReshape", F::kReshape, 1, 1, false, true},
    {K::kArgMaxPooling2d, "XNNArgMaxPooling2d", F::kArgMaxPool, 1, 2, false, true},
    {K::kSquareRoot, "XNNSquareRoot", F::kUnary, 1, 1, false, true},
    {K::kCeiling, "XNNCeiling", F::kUnary, 1, 1, false, true},
    {K::kHardswish, "XNNHardswish", F::kUnary, 1, 1, false, true},
    {K::kLeakyReLU, "XNNLeakyReLU", F::kAlpha, 1, 1, false, true},
    {K::kMaximum, "XNNMaximum", F::kBinary, 2, 1, false, true},
    {K::kNegate, "XNNNegate", F::kUnary, 1, 1, false, true},
    {K::kSquare, "XNNSquare", F::kUnary, 1, 1, false, true},
    {K::kELU, "XNNELU", F::kAlpha, 1, 1, false, true},
    {K::kAbs, "XNNAbs", F::kUnary, 1, 1, false, true},
    {K::kPReLU, "XNNPReLU", F::kBinary, 2, 1, false, true},
    {K::kConcatenate2, "XNNConcatenate2", F::kConcat, 2, 1, false, true},
    {K::kConcatenate3, "XNNConcatenate3", F::kConcat, 3, 1, false, true},
    {K::kConcatenate4, "XNNConcatenate4", F::kConcat, 4, 1, false, true},
    {K::kStaticSlice, "XNNStaticSlice", F::kSlice, 1, 1, false, true},
    {K::kScaledDotProductAttention, "XNNScaledDotProductAttention", F::kAttention, 5, 1, false, false},
    {K::kBatchMatrixMultiply, "XNNBatchMatrixMultiply", F::kBinary, 2, 1, false, true},
    {K::kConcatenate5, "XNNConcatenate5", F::kConcat, 5, 1, false, true},
    {K::kConvTranspose2d, "XNNConvTranspose2d", F::kConv, 3, 1, true, true},
    {K::kReciprocalSquareRoot, "XNNReciprocalSquareRoot", F::kUnary, 1, 1, false, true},
    {K::kLog, "XNNLog", F::kUnary, 1, 1, false, true},
    {K::kGelu, "XNNGelu", F::kUnary, 1, 1, false, true},
    {K::kTanh, "XNNTanh", F::kUnary, 1, 1, false, true},
    {K::kExp, "XNNExp", F::kUnary, 1, 1, false, true},
    {K::kSin, "XNNSin", F::kUnary, 1, 1, false, true},
    {K::kCopy, "XNNCopy", F::kUnary, 1, 1, false, true},
    {K::kCos, "XNNCos", F::kUnary, 1, 1, false, true},
}};
// clang-format on

namespace {

constexpr bool positions_match_kinds() {
  for (size_t i = 0; i < kXnnNodeTable.size(); ++i) {
    if (static_cast<size_t>(kXnnNodeTable[i].kind) != i + 1) return false;
  }
  return true;
}
static_assert(positions_match_kinds());

struct DatatypeRow {
  std::string_view name;
  uint8_t constant_bits;  // of one element; 0: no constant has this type
};
constexpr std::array<DatatypeRow, 15> kDatatypes = {{
    {"invalid", 0},
    {"fp32", 32},
    {"fp16", 16},
    {"qint8", 8},
    {"quint8", 8},
    {"qint32", 32},
    {"qcint8", 8},
    {"qcint32", 32},
    {"qcint4", 4},
    {"qdint8", 0},
    {"qbint4", 4},
    {"qpint8", 0},
    {"int32", 32},
    {"pfp32", 0},
    {"bf16", 16},
}};

}  // namespace

std::string_view name(XnnDatatype type) {
  const auto i = static_cast<size_t>(type);
  return i < kDatatypes.size() ? kDatatypes[i].name : "unknown";
}

std::optional<XnnNodeKind> parse_xnn_node_kind(std::string_view name) {
  const auto row = std::ranges::find(kXnnNodeTable, name, &XnnNodeInfo::name);
  if (row == kXnnNodeTable.end()) return std::nullopt;
  return row->kind;
}

std::optional<uint64_t> xnn_constant_bytes(const XnnValue& value) {
  const auto type = static_cast<size_t>(value.datatype);
  if (type >= kDatatypes.size() || kDatatypes[type].constant_bits == 0) return std::nullopt;
  const uint64_t bits = kDatatypes[type].constant_bits;
  uint64_t total = 1;
  for (size_t i = 0; i < value.dims.size(); ++i) {
    uint64_t dim = value.dims[i];
    // The last dimension in bytes: an odd row of 4-bit values is padded.
    if (i + 1 == value.dims.size()) dim = (dim * bits + 7) / 8;
    const std::optional<uint64_t> next = checked_mul(total, dim);
    if (!next) return std::nullopt;
    total = *next;
  }
  return value.dims.empty() ? (bits + 7) / 8 : total;
}

Result<std::vector<float>> xnn_scales(const XnnGraph& graph, const XnnValue& value) {
  if (const auto* q = std::get_if<XnnPerTensor>(&value.quant)) return std::vector{q->scale};
  const auto load = [&graph](const auto& q, size_t item) -> Result<std::vector<float>> {
    if (!q.scales.empty() || q.scale_constant == 0) return q.scales;
    const XnnConstant& constant = graph.constants[q.scale_constant];
    if (constant.data.size() < q.num_scales * item) {
      return not_found(cat("scales: constant ", q.scale_constant, " ('",
                           printable(constant.named_key), "') was not found"));
    }
    std::vector<float> scales(q.num_scales);
    for (size_t i = 0; i < scales.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, constant.data.data() + i * item, item);
      scales[i] = std::bit_cast<float>(item == 2 ? bits << 16 : bits);  // bf16 is half an f32
    }
    return scales;
  };
  if (const auto* q = std::get_if<XnnPerChannel>(&value.quant)) return load(*q, sizeof(float));
  if (const auto* q = std::get_if<XnnPerChannelGroup>(&value.quant)) return load(*q, 2);
  return invalid_argument("the value has no scales");
}

}  // namespace downhaul

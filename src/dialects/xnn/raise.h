#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/xnn/xnn.h"
#include "ir/graph.h"

/// XNNPACK payload → IR, for payloads of any origin.
namespace downhaul {

/// Finds the bytes of a named constant as a tensor of dtype u8 and rank 1 (of at least the length
/// asked for), so that weights keep pointing into the mapped file. nullopt when there is none.
using XnnTensorLookup = std::function<std::optional<Tensor>(std::string_view key)>;

/// Rebuilds the payload's computation with `b` on the values `inputs`, one per external input in
/// order, whose sizes (also symbolic ones) replace those of the payload. Returns its outputs in
/// order.
///   Images stay NHWC: convolutions, poolings and resizes carry layout="nhwc".
///   Filters become constants in the IR's order (OIHW). A fused output range becomes a clamp.
///   Quantized values become f32 values behind quantize / dequantize pairs (per tensor, per
///   channel, blockwise weights are dequantized to constants); a dynamically quantized linear is
///   raised to a float linear on the dequantized weight. Constants without a key and data inside
///   the payload are copied when `lookup` does not know them.
/// Errors: kInvalidFile for shapes that do not fit each other, kUnsupported for a node type that
/// the stock runtime refuses as well, kNotFound for a constant; each names the node.
Result<std::vector<Value*>> raise_xnn_payload(const XnnGraph& graph, const XnnTensorLookup& lookup,
                                              const std::vector<Value*>& inputs, Builder& b);

}  // namespace downhaul

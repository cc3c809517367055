#pragma once

#include <span>
#include <string>
#include <vector>

#include "formats/xnn/xnn.h"
#include "ir/graph.h"

/// IR → XNNPACK payload. The operators that have a node are in table.cc; everything else has to be
/// rewritten to them first (targets/xnnpack).
namespace downhaul {

/// A weight that the payload refers to by name; it belongs into the program's named data.
struct XnnNamedTensor {
  std::string key;
  Tensor data;
};

struct XnnPayload {
  XnnGraph graph;                     ///< its constants point into `named`
  std::vector<XnnNamedTensor> named;  ///< each key once
};

/// Why `node` has no spelling in a payload, in words for the report; empty when it has one. Judges
/// the node alone: operands in the payload, from outside, or constant.
std::string xnn_refusal(const Node& node);

/// Builds the payload of `nodes` (a convex piece of one graph, in execution order, each without
/// refusal).
///   inputs    values from outside that the nodes use, no constants; external ids 0 .. n-1
///   outputs   results of the nodes that are used outside; external ids n .. n+m-1
/// A clamp is fused into the node that makes its operand when nothing else uses that. Bytes of
/// weights stay as they are in the constants (a view of a mapped file stays one), apart from
/// convolution filters, whose dimensions the format orders differently. They are keyed by the
/// constant's name, which is unique in the graph. None lies in the payload itself: the stock
/// runtime unmaps that once the delegate is made, and only weights that it packs would survive.
/// `debug_handle` of each node is its first origin's index.
/// Errors: kUnsupported with the refusal.
Result<XnnPayload> emit_xnn_payload(std::span<Node* const> nodes, std::span<Value* const> inputs,
                                    std::span<Value* const> outputs);

}  // namespace downhaul

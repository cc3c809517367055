#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "rewrite/rewrite.h"
#include "targets/executorch/lowered.h"
#include "targets/executorch/region.h"

/// The `xnnpack` target: as much of a graph as the payload format allows goes into few delegates;
/// what stays outside runs on the stock runtime's kernels and carries its reason.
namespace downhaul {

/// Weights above this are worth a second call.
inline constexpr int64_t kManyWeightBytes = 128 << 20;
inline constexpr int64_t kOneDelegate = std::numeric_limits<int64_t>::max();

struct XnnpackOptions {
  PipelineOptions pipeline;
  EmitOptions emit;
  /// Rows are picked by a kernel outside the delegates instead of by a one-hot product inside, so
  /// that non-finite values in rows that are not picked cannot spread.
  bool exact_select = false;
  /// A delegate whose weights exceed so many bytes is cut in two, to keep memory low while it is
  /// loaded; kOneDelegate: never.
  int64_t weight_limit = kManyWeightBytes;
};

/// A node that no delegate computes.
struct OutsideNode {
  const Node* node;
  std::string reason;
};

/// The graph is cut into delegated regions and nodes outside.
struct XnnpackPartition {
  std::vector<DelegatedRegion> regions;  ///< in execution order
  std::vector<OutsideNode> outside;      ///< in execution order
  std::string split;                     ///< why a delegate was cut in two; empty when none was
};

/// The steps that make a canonical graph consist of operators that XNNPACK has nodes for. Bool and
/// integer arithmetic becomes f32 arithmetic on 0/1 indicators where that is exact.
std::vector<Pass> xnnpack_passes(bool exact_select);

/// Cuts `graph` (legalized) and builds the payloads; reorders nodes so that each region is
/// contiguous. Regions are convex: no path leaves one and comes back. One with many weights is cut
/// in two; see XnnpackOptions::weight_limit.
/// Errors: kUnsupported from the payload's builder.
Result<XnnpackPartition> partition_xnnpack(Graph& graph, int64_t weight_limit = kManyWeightBytes);

/// A lowered graph, with what stayed outside the delegates.
struct XnnpackLowered {
  Lowered lowered;
  XnnpackPartition partition;  ///< its nodes live in the graph
};

/// Legalizes `graph` (in place), partitions and emits it.
/// Errors: kUnsupported with one line that lists every node that neither a delegate nor a kernel
/// computes, and why.
Result<XnnpackLowered> lower_xnnpack(Graph& graph, const XnnpackOptions& options = {});

}  // namespace downhaul

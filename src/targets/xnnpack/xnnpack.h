#pragma once

#include <span>
#include <string>
#include <vector>

#include "rewrite/rewrite.h"
#include "targets/executorch/lowered.h"
#include "targets/executorch/region.h"

/// The `xnnpack` target: as much of a graph as the payload format allows goes into few delegates;
/// what stays outside runs on the stock runtime's kernels and carries its reason.
namespace downhaul {

struct XnnpackOptions {
  PipelineOptions pipeline;
  EmitOptions emit;
  /// Rows are picked by a kernel outside the delegates instead of by a one-hot product inside, so
  /// that non-finite values in rows that are not picked cannot spread.
  bool exact_select = false;
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
};

/// The steps that make a canonical graph consist of operators that XNNPACK has nodes for. Bool and
/// integer arithmetic becomes f32 arithmetic on 0/1 indicators where that is exact.
std::vector<Pass> xnnpack_passes(bool exact_select);

/// Cuts `graph` (legalized) and builds the payloads; reorders nodes so that each region is
/// contiguous. Regions are convex: no path leaves one and comes back.
/// Errors: kUnsupported from the payload's builder.
Result<XnnpackPartition> partition_xnnpack(Graph& graph);

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

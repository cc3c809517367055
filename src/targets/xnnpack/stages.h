#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

/// Which call computes which node.
namespace downhaul::xnnpack {

/// Nodes of the graph by stage. The order outside 0, delegate 0, outside 1, delegate 1, … is an
/// order of execution: what stays outside in stage k needs delegates below k only, and delegate k
/// needs what is outside up to k and delegates up to k. So every delegate is convex.
struct Stages {
  std::vector<std::vector<Node*>> outside;   ///< in graph order; may be empty
  std::vector<std::vector<Node*>> delegate;  ///< in graph order; may be empty
};

/// Puts every node without a reason into as early a delegate as its operands allow, then moves
/// nodes whose results only later stages use to those, so that delegates stay few and few values
/// cross.
///   refusals   reason of each node that must stay outside; nodes not in it may be delegated
Stages assign_stages(const Graph& graph,
                     const std::unordered_map<const Node*, std::string>& refusals);

}  // namespace downhaul::xnnpack

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/graph.h"

/// Where a delegate is cut in two to keep memory low while it is loaded.
namespace downhaul::xnnpack {

/// The runtime maps all weights of a delegate, packs copies of them and unmaps them together, one
/// delegate after the other: one delegate of W bytes peaks at 2·W, two of a and W - a bytes at
/// max(2·a, 2·W - a), which is least (4/3·W) for a = 2/3·W.
///   nodes  a delegate's, in an order of execution
/// Returns how many of them go into the first delegate so that the peak is least, and among equals
/// so that the fewest bytes are handed over; nodes.size() when their weights are at most `limit`.
size_t split_for_memory(const std::vector<Node*>& nodes, int64_t limit);

}  // namespace downhaul::xnnpack

#pragma once

#include <memory>
#include <span>
#include <vector>

#include "rewrite/rewrite.h"

/// The passes that all targets share, and the index of every rewrite in this library.
namespace downhaul {

namespace rewrites {
#define DH_REWRITE(symbol) extern const Rewrite symbol;
#include "passes/rewrites.inc"
#undef DH_REWRITE
}  // namespace rewrites

/// The front half of every lowering: brings each spelling of a program to the composite forms,
/// folds what is known, and picks rows before projections instead of after.
std::vector<Pass> canonical_passes();

/// Moves images to channels-last: `layout="nhwc"` operators, with permutes only where an image
/// enters or leaves. For targets whose image operators are channels-last; after canonical_passes.
std::vector<Pass> nhwc_passes();

/// A copy of `graph` as a device computes it that keeps half floats between operators: the
/// program's own operators in their order, none merged, every result rounded (see
/// precision/round_to_f16.cc). f32 and f16 programs alike; the types of inputs and outputs stay.
/// Errors: kInvalidGraph.
Result<std::unique_ptr<Graph>> graph_in_f16(const Graph& graph);

/// Rewrites that clean up after others (identities, chains, constants); a target adds them to the
/// list of its own legalizing rewrites.
std::vector<const Rewrite*> cleanup_rewrites();

/// Every rewrite of rewrites.inc, in its order; each has tests/rewrites/<name>.dh.
std::span<const Rewrite* const> all_rewrites();
/// The passes of this library that are functions over the whole graph; each has such a file too.
std::vector<Pass> graph_passes();

/// Dead code, and constants that nobody reads.
Result<int> remove_dead_code(Graph& graph);
/// Equal operators on equal operands become one; so do equal constants.
Result<int> share_common_subexpressions(Graph& graph);
/// Picks rows before they are computed (see demand/select_before_project.cc).
Result<int> select_before_project(Graph& graph);
/// Sequences laid out as images back to rows (see raise/raise_bc1s.cc).
Result<int> raise_bc1s(Graph& graph);
/// f16 programs to f32 (see precision/widen_f16.cc).
Result<int> widen_f16(Graph& graph);
/// Every number one that f16 has (see precision/round_to_f16.cc).
Result<int> round_to_f16(Graph& graph);
/// Channels-last images (see layout/assign_nhwc.cc).
Result<int> assign_nhwc(Graph& graph);

}  // namespace downhaul

#pragma once

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
/// Channels-last images (see layout/assign_nhwc.cc).
Result<int> assign_nhwc(Graph& graph);

}  // namespace downhaul

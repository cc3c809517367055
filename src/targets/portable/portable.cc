#include "targets/portable/portable.h"

#include "base/strings.h"
#include "passes/passes.h"
#include "targets/portable/rewrites/rewrites.h"

namespace downhaul {

namespace portable {

std::vector<const Rewrite*> rewrites() {
  return {
#define DH_REWRITE(symbol) &symbol,
#include "targets/portable/rewrites/rewrites.inc"
#undef DH_REWRITE
  };
}

}  // namespace portable

std::span<const Pass> portable_passes() {
  static const std::vector<Pass>* const kPasses = [] {
    std::vector<const Rewrite*> legalize = portable::rewrites();
    // Left out: the way back from index to batched_select, the way back from the expanded operands
    // of bmm to broadcast ones, and constants at the upper bound of a dynamic size (the f32 bias of
    // a causal mask would be larger than the bool mask it is from).
    for (const Rewrite* rewrite : cleanup_rewrites())
      if (rewrite != &rewrites::kIndexToBatchedSelect &&
          rewrite != &rewrites::kMergeExpandIntoBroadcast &&
          rewrite != &rewrites::kFoldBoundedConstant)
        legalize.push_back(rewrite);
    return new std::vector<Pass>{
        // Every operator becomes one that has a kernel; identities and chains that this leaves
        // behind go at once.
        {.name = "legalize_portable", .rewrites = std::move(legalize)},
        // Masks that each layer made for itself are made once.
        {.name = "share_common_subexpressions", .run = share_common_subexpressions},
        {.name = "remove_dead_code", .run = remove_dead_code},
    };
  }();
  return *kPasses;
}

Result<Lowered> lower_portable(Graph& graph, const PortableOptions& options) {
  Lowered lowered;
  DH_TRY(run_pipeline(graph, portable_passes(), options.pipeline, &lowered.log, &lowered.stopped));
  if (lowered.stopped) return lowered;
  DH_ASSIGN(lowered.program, emit_program(graph, {}, options.emit));
  return lowered;
}

}  // namespace downhaul

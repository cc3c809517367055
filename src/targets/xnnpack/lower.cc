#include "targets/executorch/emit.h"
#include "targets/xnnpack/xnnpack.h"

namespace downhaul {

Result<XnnpackLowered> lower_xnnpack(Graph& graph, const XnnpackOptions& options) {
  XnnpackLowered result;
  const std::vector<Pass> passes = xnnpack_passes(options.exact_select);
  DH_TRY(
      run_pipeline(graph, passes, options.pipeline, &result.lowered.log, &result.lowered.stopped));
  if (result.lowered.stopped) return result;
  DH_ASSIGN(result.partition, partition_xnnpack(graph, options.weight_limit));
  DH_ASSIGN(result.lowered.program, emit_program(graph, result.partition.regions, options.emit));
  return result;
}

}  // namespace downhaul

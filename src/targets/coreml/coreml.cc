#include "targets/coreml/coreml.h"

#include "passes/passes.h"
#include "targets/coreml/rewrites/rewrites.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul {

namespace {

std::vector<const Rewrite*> cleanup() {
  std::vector<const Rewrite*> out = cleanup_rewrites();
  // Keys are transposed once for all heads, then taken apart.
  std::erase(out, &rewrites::kSliceBeforePermute);
  return out;
}

std::vector<Pass> legalizing_passes() {
  std::vector<const Rewrite*> legalize = coreml::rewrites();
  for (const Rewrite* rewrite :
       {&xnnpack::kExpandGroupNorm, &xnnpack::kExpandVar, &xnnpack::kRollToSlices}) {
    legalize.push_back(rewrite);
  }
  for (const Rewrite* rewrite : cleanup()) legalize.push_back(rewrite);
  return {
      {.name = "legalize_coreml", .rewrites = std::move(legalize)},
      // Masks that each layer made for itself are made once.
      {.name = "coreml_share_common_subexpressions", .run = share_common_subexpressions},
      {.name = "coreml_remove_dead_code", .run = remove_dead_code},
  };
}

}  // namespace

std::span<const Pass> coreml_passes() {
  static const auto* const kPasses = new std::vector<Pass>(legalizing_passes());
  return *kPasses;
}

std::span<const Pass> ane_passes() {
  static const auto* const kPasses = [] {
    auto* passes = new std::vector<Pass>{
        {.name = "assign_bc1s", .run = coreml::assign_bc1s},
        // Views at the borders that cancel.
        {.name = "canonicalize_bc1s", .rewrites = cleanup()},
        {.name = "keep_wide_outputs", .run = coreml::keep_wide_outputs},
    };
    // What is no sequence is said as it stands.
    for (Pass& pass : legalizing_passes()) passes->push_back(std::move(pass));
    return passes;
  }();
  return *kPasses;
}

Result<CoreMlLowered> lower_coreml(Graph& graph, const CoreMlOptions& options) {
  CoreMlLowered lowered;
  DH_TRY(run_pipeline(graph, options.neural_engine ? ane_passes() : coreml_passes(),
                      options.pipeline, &lowered.log, &lowered.stopped));
  if (lowered.stopped) return Result<CoreMlLowered>(std::move(lowered));
  DH_ASSIGN(lowered.program, coreml::emit_program(graph, options.emit));
  return Result<CoreMlLowered>(std::move(lowered));
}

}  // namespace downhaul

#pragma once

#include <span>

#include "dialects/mil/emit.h"
#include "rewrite/rewrite.h"

/// The Core ML targets: `coreml` says a model in Core ML's operations as it stands, `ane`
/// re-expresses it for the Apple Neural Engine first.
namespace downhaul {

struct CoreMlOptions {
  bool neural_engine = false;  ///< ane_passes instead of coreml_passes
  PipelineOptions pipeline;
  coreml::EmitOptions emit;
};

struct CoreMlLowered {
  coreml::EmittedProgram program;
  PassLog log;
  bool stopped = false;  ///< PipelineOptions::stop_after ended it; there is no program
};

/// What makes a canonical graph consist of operators that Core ML has.
std::span<const Pass> coreml_passes();
/// The same after the re-expression for the Neural Engine: sequences as [B, C, 1, S], attention
/// head by head. For canonical graphs in which rows have not been selected before the last layer.
std::span<const Pass> ane_passes();

/// Legalizes `graph` (in place) and emits it.
/// Errors: kUnsupported listing every operator without a spelling and why.
Result<CoreMlLowered> lower_coreml(Graph& graph, const CoreMlOptions& options);

}  // namespace downhaul

#pragma once

#include <span>

#include "targets/executorch/lowered.h"

/// The `portable` target: every node runs on a kernel of the stock runtime's registry.
namespace downhaul {

struct PortableOptions {
  PipelineOptions pipeline;
  EmitOptions emit;
};

/// The steps that make a canonical graph consist of operators that have kernels.
std::span<const Pass> portable_passes();

/// Legalizes `graph` (in place) and emits it.
/// Errors: kUnsupported with one line that lists every operator without a kernel and why.
Result<Lowered> lower_portable(Graph& graph, const PortableOptions& options = {});

}  // namespace downhaul

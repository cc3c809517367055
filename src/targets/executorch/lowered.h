#pragma once

#include "rewrite/rewrite.h"
#include "targets/executorch/emit.h"

namespace downhaul {

/// What a target that writes ExecuTorch programs makes of a graph.
struct Lowered {
  EmittedProgram program;
  PassLog log;
  bool stopped = false;  ///< PipelineOptions::stop_after ended it; there is no program
};

}  // namespace downhaul

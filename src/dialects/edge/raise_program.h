#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "formats/pte/pte.h"
#include "ir/graph.h"

/// An ExecuTorch program becomes a graph again, whoever made it.
namespace downhaul {

/// Where a node of a raised graph came from.
struct RaisedFrom {
  int instruction = 0;  ///< position in the plan's first chain
  int delegate = -1;    ///< position in Plan::delegates, or -1 for a kernel call
};

struct RaisedProgram {
  std::unique_ptr<Graph> graph;
  std::unordered_map<const Node*, RaisedFrom> sources;
};

struct RaiseOptions {
  std::string plan;  ///< name of the entry point; empty: the first
};

/// Follows the instructions of one plan. Views that the file expresses only by shared memory are
/// found by tracking which value last wrote each planned range; delegates are raised in place;
/// constants stay in the mapped file; tensors with bounds get symbolic sizes.
/// Errors: kUnsupported listing every kernel or backend that has no IR form; kUnsupported for
/// jumps; kInvalidFile when a value is read before anything wrote it.
Result<RaisedProgram> raise_program(const PteFile& file, const RaiseOptions& options = {});

}  // namespace downhaul

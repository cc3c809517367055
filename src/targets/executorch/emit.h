#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/pte/pte.h"
#include "formats/pte/pte_writer.h"
#include "ir/graph.h"
#include "passes/plan/memory.h"
#include "targets/executorch/region.h"

/// A legalized graph becomes an ExecuTorch program: values, calls, constants, planned memory.
namespace downhaul {

struct EmitOptions {
  /// Also write the names of the source's nodes into the file (see dialects/edge/node_names.h).
  bool embed_nodes = false;
};

/// One instruction of the program, for summaries and profiles.
struct EmittedCall {
  std::string name;            ///< "aten::add.out", or the backend's id
  int region = -1;             ///< position in `regions` for a delegate call
  const Node* node = nullptr;  ///< of a kernel call
  std::string purpose;         ///< of a kernel call without node
  std::vector<int> origins;    ///< indices into Graph::origins
};

/// Bytes of one thing in the file. The entries of a report sum to the file's size.
struct SizeEntry {
  enum class Kind { kProgram, kConstant, kInitialContent, kPayload, kNamedData, kPadding };
  Kind kind = Kind::kProgram;
  /// constants: name of the value; initial content: the states'; named data: key; payload:
  /// "delegate 0"
  std::string owner;
  uint64_t bytes = 0;
  int references = 1;  ///< how many constants or keys share these bytes
};

struct SizeReport {
  uint64_t file_size = 0;
  std::vector<SizeEntry> entries;  ///< in the order of the file
  uint64_t total(SizeEntry::Kind kind) const;
};
const char* name(SizeEntry::Kind kind);

/// Everything that the file will hold. Constants and payloads are not read until `write_program`.
struct EmittedProgram {
  pte::Program program;
  PteBuilder builder;
  std::vector<EmittedCall> calls;  ///< as the instructions of the program
  std::vector<PlanBlock> blocks;
  MemoryPlan plan;
  int num_delegate_calls = 0;
  int num_kernel_calls = 0;  ///< size arithmetic and views included

  // Who refers to what, for the size report.
  std::vector<std::vector<std::string>> constant_owners;  ///< by data_index
  std::vector<std::string> state_names;                   ///< with initial content
  std::vector<std::string> payload_owners;                ///< by payload number
  std::vector<std::string> named_keys;                    ///< in the order of first mention
};

/// Emits `graph`: nodes inside a region become one delegate call, every other node one kernel call
/// of the stock runtime, or nothing when it is a view of static shape. Dead nodes must be gone.
/// The graph's inputs and outputs become the method's. States have memory of their own with initial
/// content, which the last instructions overwrite: each run of a loaded method finds what the one
/// before it left. Deterministic.
/// Errors: kUnsupported listing every node that no kernel expresses, with the reason; kInvalidGraph
/// when a region is not contiguous.
Result<EmittedProgram> emit_program(const Graph& graph, std::span<const DelegatedRegion> regions,
                                    const EmitOptions& options = {});

/// Writes the file to `out` (position 0); the caller commits. The report sums to the file.
Result<SizeReport> write_program(const EmittedProgram& program, OutputFile& out);

}  // namespace downhaul

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/command_line.h"
#include "ir/graph.h"
#include "rewrite/rewrite.h"
#include "targets/coreml/coreml.h"

namespace downhaul {

/// The options of `lower` that concern Core ML only.
class CoreMlFlags {
 public:
  void declare(Options& o);
  /// True when one of them was given.
  bool given() const;
  /// Errors: kInvalidArgument for values that do not go together.
  Result<coreml::EmitOptions> options() const;

 private:
  int64_t ios_ = 0;
  std::string norm_;
  std::string input_prefix_;
  std::string precision_;
};

/// A graph on its way into a package, and what its metadata says.
struct CoreMlJob {
  std::string source, name, model_id, backend;
  std::string base;  ///< of the output names, with the folder: "out/model_coreml"
  std::optional<int64_t> seq_len;
  double load_ms = 0;
  PipelineOptions pipeline;  ///< for the passes of the target
  coreml::EmitOptions emit;
  PassLog log;  ///< of the passes so far
};

struct CoreMlWritten {
  std::string metadata;  ///< JSON, written beside the package
  std::string text;      ///< for people
  bool stopped = false;  ///< by --stop-after
};

/// Lowers a canonical graph (changed in place) and writes package and metadata.
Result<CoreMlWritten> write_core_ml(Graph& graph, CoreMlJob job);

}  // namespace downhaul

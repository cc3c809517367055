#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "ir/graph.h"
#include "rewrite/rewrite.h"
#include "targets/coreml/coreml.h"

namespace downhaul {

/// Whether, and on what, the FP16 guard runs before a package is written.
struct Fp16Check {
  bool wanted = false;
  bool strict = false;              ///< findings that are errors end the lowering
  std::vector<std::string> inputs;  ///< files; none: generated ones
  bool runs() const { return wanted || strict || !inputs.empty(); }
};

/// The options of `lower` that concern Core ML only.
class CoreMlFlags {
 public:
  void declare(Options& o);
  /// True when one of them was given.
  bool given() const;
  /// Errors: kInvalidArgument for values that do not go together.
  Result<coreml::EmitOptions> options() const;
  Fp16Check fp16_check() const { return {check_, strict_, inputs_}; }

 private:
  bool check_ = false, strict_ = false;
  std::vector<std::string> inputs_;
  int64_t ios_ = 0;
  std::string norm_;
  std::string input_prefix_;
  std::string precision_, weights_;
};

/// A graph on its way into a package, and what its metadata says.
struct CoreMlJob {
  std::string source, name, model_id, backend;
  std::string base;  ///< of the output names, with the folder: "out/model_coreml"
  std::optional<int64_t> seq_len;
  double load_ms = 0;
  PipelineOptions pipeline;  ///< for the passes of the target
  coreml::EmitOptions emit;
  Fp16Check fp16_check;
  PassLog log;  ///< of the passes so far
};

struct CoreMlWritten {
  std::string metadata;  ///< JSON, written beside the package
  std::string text;      ///< for people
  bool stopped = false;  ///< by --stop-after
};

/// Lowers a canonical graph (changed in place) and writes package and metadata.
/// Errors: those of the lowering; of the FP16 guard and its inputs; with `strict` kUnsupported
/// naming every finding, and nothing is written.
Result<CoreMlWritten> write_core_ml(Graph& graph, CoreMlJob job);

}  // namespace downhaul

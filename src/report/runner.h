#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/plan.h"
#include "ir/graph.h"

/// Evaluation of a loaded file, by whichever kernels the user asked for.
namespace downhaul {

struct RunnerOptions {
  bool reference = false;  ///< the reference kernels: slow, and the definition of what is right
  int threads = 1;
  bool bf16 = false;  ///< linear layers of the engine in bf16: faster where the CPU has it, coarser
  std::string cache;  ///< folder for packed weights; empty: none
};

/// One graph made ready to run. `graph` must outlive it. Not for several threads at a time.
class Runner {
 public:
  /// Errors: those of the engine's preparation.
  static Result<std::unique_ptr<Runner>> make(const Graph& graph, const RunnerOptions& options);
  virtual ~Runner() = default;
  /// Buffers that the model changes begin with the file's content each time.
  /// Errors: kInvalidArgument for inputs that do not fit; as the kernels'.
  virtual Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs) = 0;
};

/// Says on the error stream when packed weights cannot be kept in `folder` (unless it is empty):
/// they are packed anew each time then, which is no error.
void warn_of_cache(const std::string& folder);

/// "engine, avx512, 2 threads", "…, linear layers in bf16 (emulated)" or "reference kernels, 2
/// threads".
std::string describe(const RunnerOptions& options);

engine::Precision precision_of(bool bf16);
/// "bf16", or that it is emulated.
std::string describe_bf16();

}  // namespace downhaul

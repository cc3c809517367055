#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/plan.h"
#include "ir/graph.h"

/// Evaluation of a loaded file, by whichever kernels the user asked for.
namespace downhaul {

struct RunnerOptions {
  bool reference = false;  ///< the reference kernels: slow, and the definition of what is right
  int threads = 1;
  /// kBf16 is the engine's alone; the reference kernels do the other two.
  engine::Precision precision = engine::Precision::kF32;
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

/// The names that the command line takes, f32 first.
const std::vector<std::string>& precision_names();
/// Of one of those names.
engine::Precision precision_of(std::string_view name);
/// "f32", "linear layers in bf16" (or that it is emulated), "every result rounded to f16".
std::string describe(engine::Precision precision);

}  // namespace downhaul

#include "report/runner.h"

#include <unistd.h>

#include <cstdio>

#include "base/file.h"
#include "base/parallel.h"
#include "base/strings.h"
#include "engine/engine.h"
#include "kernels/gemm/bf16.h"
#include "kernels/isa.h"
#include "ops/evaluate.h"

namespace downhaul {
namespace {

class ReferenceRunner final : public Runner {
 public:
  ReferenceRunner(const Graph& graph, int threads) : graph_(graph), threads_(threads) {}
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs) override {
    set_num_threads(threads_);
    return evaluate(graph_, inputs);
  }

 private:
  const Graph& graph_;
  int threads_;
};

class EngineRunner final : public Runner {
 public:
  EngineRunner(std::shared_ptr<EngineModel> model, const RunnerOptions& options)
      : session_(std::move(model), EngineOptions{.num_threads = options.threads,
                                                 .precision = precision_of(options.bf16)}) {}
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs) override {
    session_.reset_state();
    return session_.run(inputs);
  }

 private:
  Session session_;
};

}  // namespace

Result<std::unique_ptr<Runner>> Runner::make(const Graph& graph, const RunnerOptions& options) {
  // Operators without a fast kernel use these threads.
  set_num_threads(options.threads);
  if (options.reference) {
    return std::unique_ptr<Runner>(std::make_unique<ReferenceRunner>(graph, options.threads));
  }
  DH_ASSIGN(auto model, EngineModel::prepare(graph, options.cache));
  return std::unique_ptr<Runner>(std::make_unique<EngineRunner>(std::move(model), options));
}

void warn_of_cache(const std::string& folder) {
  if (folder.empty()) return;
  if (make_directories(folder).ok() && ::access(folder.c_str(), W_OK | X_OK) == 0) return;
  std::fprintf(stderr,
               "downhaul: warning: the cache folder '%s' cannot be written: packed weights are not "
               "kept\n",
               printable(folder).c_str());
}

std::string describe(const RunnerOptions& options) {
  const std::string threads = cat(options.threads, options.threads == 1 ? " thread" : " threads");
  if (options.reference) return cat("reference kernels, ", threads);
  std::string out = cat("engine, ", name(active_isa()), ", ", threads);
  if (options.bf16) out += cat(", linear layers in ", describe_bf16());
  return out;
}

engine::Precision precision_of(bool bf16) {
  return bf16 ? engine::Precision::kBf16 : engine::Precision::kF32;
}

std::string describe_bf16() {
  return kernels::has_bf16_products() ? "bf16" : "bf16 (emulated: this CPU has no instruction)";
}

}  // namespace downhaul

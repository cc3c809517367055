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
#include "passes/passes.h"

namespace downhaul {
namespace {

class ReferenceRunner final : public Runner {
 public:
  ReferenceRunner(const Graph& graph, int threads) : graph_(graph), threads_(threads) {}
  /// With a graph of its own.
  ReferenceRunner(std::unique_ptr<Graph> graph, int threads)
      : own_(std::move(graph)), graph_(*own_), threads_(threads) {}
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs) override {
    set_num_threads(threads_);
    return evaluate(graph_, inputs);
  }

 private:
  std::unique_ptr<Graph> own_;
  const Graph& graph_;
  int threads_;
};

class EngineRunner final : public Runner {
 public:
  EngineRunner(std::shared_ptr<EngineModel> model, const RunnerOptions& options)
      : session_(std::move(model),
                 EngineOptions{.num_threads = options.threads, .precision = options.precision}) {}
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
  if (options.reference && options.precision == engine::Precision::kF16) {
    DH_ASSIGN(auto rounded, graph_in_f16(graph));
    return std::unique_ptr<Runner>(
        std::make_unique<ReferenceRunner>(std::move(rounded), options.threads));
  }
  if (options.reference) {
    return std::unique_ptr<Runner>(std::make_unique<ReferenceRunner>(graph, options.threads));
  }
  DH_ASSIGN(auto model, EngineModel::prepare(graph, options.cache, options.precision));
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
  std::string out = options.reference ? cat("reference kernels, ", threads)
                                      : cat("engine, ", name(active_isa()), ", ", threads);
  if (options.precision != engine::Precision::kF32) out += cat(", ", describe(options.precision));
  return out;
}

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = {"f32", "bf16", "fp16", "fp32"};
  return names;
}

engine::Precision precision_of(std::string_view name) {
  if (name == "bf16") return engine::Precision::kBf16;
  return name == "fp16" ? engine::Precision::kF16 : engine::Precision::kF32;
}

std::string describe(engine::Precision precision) {
  switch (precision) {
    case engine::Precision::kF32:
      return "f32";
    case engine::Precision::kBf16:
      return cat("linear layers in bf16",
                 kernels::has_bf16_products() ? "" : " (emulated: this CPU has no instruction)");
    case engine::Precision::kF16:
      return "every result rounded to f16";
  }
  return "";
}

}  // namespace downhaul

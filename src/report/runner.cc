#include "report/runner.h"

#include "base/parallel.h"
#include "base/strings.h"
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

std::string count(int n, std::string_view what) { return cat(n, " ", what, n == 1 ? "" : "s"); }

}  // namespace

Result<std::unique_ptr<Runner>> Runner::make(const Graph& graph, const RunnerOptions& options) {
  return std::unique_ptr<Runner>(std::make_unique<ReferenceRunner>(graph, options.threads));
}

std::string describe(const RunnerOptions& options) {
  return cat("reference kernels, ", count(options.threads, "thread"));
}

}  // namespace downhaul

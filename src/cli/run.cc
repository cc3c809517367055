#include <chrono>
#include <cmath>
#include <cstdio>

#include "base/strings.h"
#include "cli/verbs.h"
#include "formats/json/json.h"
#include "ops/evaluate.h"
#include "report/artifact.h"

namespace downhaul {
namespace {

class Run final : public Verb {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view summary() const override { return "Evaluate a .pt2 or .pte file on inputs"; }
  std::string_view details() const override {
    return "Inputs are matched by name, or by position with the keys 0, 1, …\n"
           "Examples:\n"
           "  downhaul run model.pte --inputs x.safetensors --outputs y.safetensors\n"
           "  downhaul run model.pt2 --random 7";
  }
  void declare(Options& o) override {
    o.positional(&file_, "FILE", "a .pt2 or .pte file");
    o.text(&inputs_, "--inputs", "FILE", "safetensors with the inputs");
    o.number(&seed_, "--random", "SEED", "random inputs drawn with this seed instead", 0,
             INT64_MAX);
    o.text(&outputs_, "--outputs", "FILE", "where to write the outputs (safetensors)");
    o.list(&keep_, "--output", "NAME", "compute only this output; may be repeated");
    o.number(&threads_, "--threads", "N", "threads to use; results do not depend on it", 1, 1024);
    o.flag(&json_, "--json", "print a summary of the outputs as JSON");
  }

  Result<int> run() override {
    if (file_.empty()) return invalid_argument("run: give a FILE");
    if (inputs_.empty() == (seed_ < 0)) {
      return invalid_argument("run: give either --inputs FILE or --random SEED");
    }
    LoadOptions options;
    options.keep_outputs = keep_;
    DH_ASSIGN(const Artifact artifact, load_artifact(file_, options));
    for (const std::string& w : artifact.warnings) {
      std::fprintf(stderr, "downhaul: warning: %s\n", w.c_str());
    }
    const Graph& graph = *artifact.graph;
    std::vector<Tensor> inputs;
    if (inputs_.empty()) {
      inputs = random_inputs(graph, static_cast<uint64_t>(seed_));
    } else {
      DH_ASSIGN(const NamedTensors named, read_tensors(inputs_));
      DH_ASSIGN(inputs, match_inputs(graph, named));
    }
    const auto begin = std::chrono::steady_clock::now();
    auto results = evaluate(graph, inputs);
    if (!results.ok()) {
      return std::move(results).status().with_context(
          cat("while running '", printable(file_), "'"));
    }
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    NamedTensors named;
    for (size_t i = 0; i < results->size(); ++i) {
      named.emplace_back(graph.outputs()[i].name, std::move((*results)[i]));
    }
    if (!outputs_.empty()) DH_TRY(write_tensors(outputs_, named));
    summarise(named, ms);
    return kExitDone;
  }

 private:
  struct Summary {
    double min = 0, max = 0, mean = 0;
    int64_t not_finite = 0;
  };
  static Summary summary_of(const Tensor& t) {
    Summary s;
    double sum = 0;
    int64_t finite = 0;
    for (int64_t i = 0, n = t.num_elements(); i < n; ++i) {
      const double v = t.at(i);
      if (!std::isfinite(v)) {
        ++s.not_finite;
        continue;
      }
      s.min = finite == 0 ? v : std::min(s.min, v);
      s.max = finite == 0 ? v : std::max(s.max, v);
      sum += v;
      ++finite;
    }
    s.mean = finite > 0 ? sum / static_cast<double>(finite) : 0;
    return s;
  }

  void summarise(const NamedTensors& outputs, double ms) const {
    if (!json_) {
      for (const auto& [output, tensor] : outputs) {
        const Summary s = summary_of(tensor);
        std::printf("%s: %s  min %s  max %s  mean %s%s\n", output.c_str(), describe(tensor).c_str(),
                    cat(static_cast<float>(s.min)).c_str(), cat(static_cast<float>(s.max)).c_str(),
                    cat(static_cast<float>(s.mean)).c_str(),
                    s.not_finite > 0 ? cat("  not finite: ", s.not_finite).c_str() : "");
      }
      std::printf("evaluated with the reference kernels in %s ms\n", fixed(ms, 1).c_str());
      if (!outputs_.empty()) std::printf("wrote %s\n", outputs_.c_str());
      return;
    }
    JsonWriter json;
    json.begin_object();
    json.field("file", file_);
    json.field("milliseconds", ms);
    json.key("outputs").begin_array();
    for (const auto& [output, tensor] : outputs) {
      const Summary s = summary_of(tensor);
      json.begin_object();
      json.field("name", output);
      json.field("dtype", downhaul::name(tensor.dtype()));
      json.field("shape", tensor.sizes());
      json.field("min", s.min);
      json.field("max", s.max);
      json.field("mean", s.mean);
      json.field("not_finite", s.not_finite);
      json.end_object();
    }
    json.end_array();
    json.end_object();
    std::fputs(json.take().c_str(), stdout);
  }

  std::string file_, inputs_, outputs_;
  std::vector<std::string> keep_;
  int64_t seed_ = -1;
  int64_t threads_ = 1;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_run() { return std::make_unique<Run>(); }

}  // namespace downhaul

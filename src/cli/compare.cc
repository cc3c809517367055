#include <cstdio>

#include "base/strings.h"
#include "cli/model_flags.h"
#include "cli/verbs.h"
#include "formats/json/json.h"
#include "kernels/isa.h"
#include "report/comparison.h"

namespace downhaul {
namespace {

class Compare final : public Verb {
 public:
  std::string_view name() const override { return "compare"; }
  std::string_view summary() const override {
    return "Say how two files of one model differ, and where that begins";
  }
  std::string_view details() const override {
    return "Random and structured inputs are tried besides the given ones. Exit code 3 when an "
           "output differs by more than the tolerance.\n"
           "Examples:\n"
           "  downhaul compare model.pt2 model_xnnpack.pte\n"
           "  downhaul compare ours.pte theirs.pte --inputs pictures.safetensors";
  }
  void declare(Options& o) override {
    o.positionals(&files_, "FILE",
                  "two .pt2, .pte or checkpoints; the second is held against the first");
    model_.declare(o);
    o.list(&compare_.inputs, "--inputs", "FILE",
           "inputs by the first file's names: safetensors, or JSON; may be repeated");
    o.number(&seed_, "--random", "SEED", "seed of the random inputs", 0, INT64_MAX);
    o.flag(&given_only_, "--given-only", "only the inputs of --inputs");
    o.real(&tolerance_, "--tolerance", "R",
           "largest difference relative to an output's largest magnitude (default: what rounding "
           "explains, see the report)");
    o.choice(&precision_, "--precision", precision_names(),
             "of the second file (default f32), the first is f32 always; bf16: its linear layers, "
             "fp16: every result rounded");
    o.flag(&no_operator_, "--no-operator", "do not look for the operator that diverges");
    o.flag(&compare_.runner.reference, "--reference", "run both with the reference kernels");
    o.number(&threads_, "--threads", "N", "threads to use; results do not depend on it", 1, 1024);
    o.flag(&json_, "--json", "print JSON");
  }
  Result<int> run() override {
    DH_TRY(lower_isa_by_environment());
    if (files_.size() != 2) return invalid_argument("compare: give two FILEs");
    if (given_only_ && compare_.inputs.empty()) {
      return invalid_argument("compare: --given-only needs --inputs FILE");
    }
    std::vector<Artifact> loaded;
    LoadOptions options;
    DH_ASSIGN(options.model, model_.options());
    for (const std::string& path : files_) {
      DH_ASSIGN(Artifact artifact, load_artifact(path, options));
      for (const std::string& w : artifact.warnings) {
        std::fprintf(stderr, "downhaul: warning: %s\n", w.c_str());
      }
      loaded.push_back(std::move(artifact));
    }
    compare_.second_precision = precision_of(precision_);
    if (compare_.second_precision == engine::Precision::kBf16 && compare_.runner.reference) {
      return invalid_argument("compare: the reference kernels know no --precision bf16");
    }
    compare_.seed = static_cast<uint64_t>(seed_);
    compare_.generated = !given_only_;
    compare_.find_operator = !no_operator_;
    compare_.runner.threads = static_cast<int>(threads_);
    if (tolerance_ >= 0) compare_.tolerance = tolerance_;
    DH_ASSIGN(const Comparison comparison, compare_artifacts(loaded[0], loaded[1], compare_));
    if (json_) {
      JsonWriter json;
      write_json(comparison, json);
      std::fputs(json.take().c_str(), stdout);
    } else {
      std::fputs(print(comparison).c_str(), stdout);
    }
    return comparison.verdict == Verdict::kDifferent ? kExitDifference : kExitDone;
  }

 private:
  std::vector<std::string> files_;
  ModelFlags model_;
  CompareOptions compare_;
  int64_t seed_ = 1;
  int64_t threads_ = 1;
  std::string precision_ = "f32";
  double tolerance_ = -1;
  bool given_only_ = false, no_operator_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_compare() { return std::make_unique<Compare>(); }

}  // namespace downhaul

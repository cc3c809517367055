#include <cstdio>

#include "base/file.h"
#include "base/strings.h"
#include "cli/model_flags.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "formats/json/json.h"
#include "formats/spec/spec.h"
#include "kernels/isa.h"
#include "report/benchmark.h"
#include "report/runner.h"

namespace downhaul {
namespace {

class Bench final : public Verb {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override {
    return "Measure how fast the engine loads and runs files, and in how much memory";
  }
  std::string_view details() const override {
    return "Load, first run and memory of each file by itself; then the files take turns, so that "
           "their "
           "steady times may be compared. DOWNHAUL_ISA lowers the instruction set.\n"
           "Examples:\n"
           "  downhaul bench model.pt2 model_xnnpack.pte --threads 2 --profile\n"
           "  downhaul bench model.pt2 --json > new.json\n"
           "  downhaul bench --compare old.json new.json";
  }
  void declare(Options& o) override {
    o.positionals(&files_, "FILE",
                  ".pt2 and .pte files and checkpoints; with --compare two results of --json",
                  false);
    model_.declare(o);
    o.flag(&compare_, "--compare", "say whether two results differ by more than their noise");
    o.number(&threads_, "--threads", "N", "threads to use", 1, 1024);
    o.number(&bench_.warmups, "--warmups", "N", "runs before those that count (default 10)", 0,
             1000000);
    o.number(&bench_.runs, "--runs", "N", "runs that count (default 50)", 1, 10000000);
    o.real(&bench_.seconds, "--seconds", "S",
           "as many runs of each file as fit into S seconds instead");
    o.text(&bench_.inputs, "--inputs", "FILE", "inputs: safetensors or JSON");
    o.number(&seed_, "--random", "SEED", "random inputs drawn with this seed (default 1)", 0,
             INT64_MAX);
    o.text(&bench_.cache, "--cache", "DIR", "keep packed weights here, and take them from here");
    o.choice(&precision_, "--precision", precision_names(),
             "f32 (default), bf16 for linear layers, fp16: every result rounded; the last two also "
             "print how far the results are off");
    o.flag(&bench_.profile, "--profile", "also the time of every kernel call");
    o.flag(&json_, "--json", "print JSON");
    o.flag(&csv_, "--csv", "print comma-separated values; with --profile a line per kernel call");
  }
  Result<int> run() override {
    DH_TRY(lower_isa_by_environment());
    if (json_ && csv_) return invalid_argument("bench: give either --json or --csv");
    if (compare_) return run_compare();
    if (files_.empty()) return invalid_argument("bench: give a FILE");
    bench_.threads = static_cast<int>(threads_);
    DH_ASSIGN(bench_.model, model_.options());
    bench_.seed = static_cast<uint64_t>(seed_);
    BenchmarkReport report;
    bench_.precision = precision_of(precision_);
    report.machine = this_machine(bench_.threads, build_type(), version());
    if (bench_.precision != engine::Precision::kF32) {
      // Without what it is the precision of.
      const std::string how = describe(bench_.precision);
      report.machine.precision = how.substr(how.find(precision_ == "bf16" ? "bf16" : "f16"));
    }
    const bool text = !json_ && !csv_;
    if (text) {
      std::fputs(print_header(report.machine).c_str(), stdout);
      std::fflush(stdout);
    }
    warn_of_cache(bench_.cache);
    DH_ASSIGN(report.files, benchmark_files(files_, bench_));
    // After the files: its memory must not count as theirs.
    measure_peaks(report.machine);
    if (json_) {
      JsonWriter json;
      write_json(report, json);
      std::fputs(json.take().c_str(), stdout);
    } else if (csv_) {
      std::fputs(to_csv(report, bench_.profile).c_str(), stdout);
    }
    for (const FileBenchmark& file : report.files) {
      if (!text) break;
      std::fputs(print_coverage(file).c_str(), stdout);
      std::fputs(print_figures(file, report.machine).c_str(), stdout);
      if (bench_.profile) std::fputs(print_profile(file, report.machine).c_str(), stdout);
    }
    return kExitDone;
  }

 private:
  Result<int> run_compare() const {
    if (files_.size() != 2) return invalid_argument("bench: --compare takes OLD.json NEW.json");
    std::vector<JsonValue> reports;
    for (const std::string& path : files_) {
      DH_ASSIGN(const std::string text, read_text_file(path));
      auto parsed = JsonValue::parse(text);
      if (!parsed.ok()) {
        return std::move(parsed).status().with_context(cat("'", printable(path), "'"));
      }
      reports.push_back(*std::move(parsed));
    }
    auto compared = compare_benchmarks(reports[0], reports[1]);
    if (!compared.ok()) {
      return std::move(compared).status().with_context(
          cat("'", printable(files_[0]), "' and '", printable(files_[1]), "'"));
    }
    const auto& differences = *compared;
    if (json_) {
      JsonWriter json;
      write_json(differences, json);
      std::fputs(json.take().c_str(), stdout);
    } else {
      std::fputs(print(differences).c_str(), stdout);
    }
    return kExitDone;
  }

  std::vector<std::string> files_;
  ModelFlags model_;
  BenchmarkOptions bench_;
  std::string precision_ = "f32";
  int64_t threads_ = 1;
  int64_t seed_ = 1;
  bool compare_ = false, json_ = false, csv_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_bench() { return std::make_unique<Bench>(); }

}  // namespace downhaul

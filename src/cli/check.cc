#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/strings.h"
#include "cli/verbs.h"
#include "formats/json/json.h"
#include "formats/spec/spec.h"
#include "kernels/isa.h"
#include "report/artifact.h"
#include "report/comparison.h"
#include "report/masked_rows.h"

namespace downhaul {
namespace {

/// One thing that was looked at.
struct Finding {
  enum class Level { kFine, kWarning, kFault };
  Level level = Level::kFine;
  std::string file;
  std::string text;
};

class Check final : public Verb {
 public:
  std::string_view name() const override { return "check"; }
  std::string_view summary() const override {
    return "Check that a model's files exist, load and agree with each other";
  }
  std::string_view details() const override {
    return "Exit code 0 when everything is fine, 1 otherwise; NaN and Inf in weights are listed, "
           "and\n"
           "rows of attention whose every key is masked out.\n"
           "Example:\n  downhaul check --spec artifacts/distilbert/model_spec.json";
  }
  void declare(Options& o) override {
    o.positionals(&files_, "FILE", ".pt2 and .pte files of one model", false);
    o.text(&spec_, "--spec", "FILE",
           "check the files that this model_spec.json names, and the "
           "lowered files beside it");
    o.flag(&no_run_, "--no-run", "do not evaluate the files to compare their outputs");
    o.flag(&json_, "--json", "print JSON");
  }
  Result<int> run() override {
    DH_TRY(lower_isa_by_environment());
    if (files_.empty() && spec_.empty())
      return invalid_argument("check: give a FILE or --spec FILE");
    if (!spec_.empty()) DH_TRY(collect_spec());
    std::vector<Artifact> loaded;
    for (const std::string& path : files_) {
      auto artifact = load_artifact(path);
      if (!artifact.ok()) {
        add(Finding::Level::kFault, path, artifact.status().message());
        continue;
      }
      add(Finding::Level::kFine, path, cat("loads: ", artifact->graph->nodes().size(), " nodes"));
      for (const std::string& w : artifact->warnings) add(Finding::Level::kWarning, path, w);
      check_weights(*artifact);
      check_metadata(path);
      if (!no_run_) check_masks(*artifact);
      loaded.push_back(*std::move(artifact));
    }
    if (!no_run_ && loaded.size() > 1) compare(loaded);
    print_findings();
    const bool fault = std::any_of(findings_.begin(), findings_.end(), [](const Finding& f) {
      return f.level == Finding::Level::kFault;
    });
    return fault ? kExitFault : kExitDone;
  }

 private:
  /// Messages of readers begin with the file, which a finding names already.
  void add(Finding::Level level, const std::string& file, std::string text) {
    const std::string prefix = cat("'", printable(file), "'");
    if (text.starts_with(cat(prefix, ": "))) {
      text.erase(0, prefix.size() + 2);
    } else if (text.starts_with(cat(prefix, " "))) {
      text.erase(0, prefix.size() + 1);
    }
    findings_.push_back({level, file, std::move(text)});
  }

  Status collect_spec() {
    DH_ASSIGN(const ModelSpec spec, read_model_spec(spec_));
    const auto look = [&](const std::optional<SpecPath>& entry, const char* what) {
      if (!entry) return;
      if (entry->found.empty()) {
        add(Finding::Level::kFault, spec_, entry->error);
      } else {
        add(Finding::Level::kFine, spec_, cat(what, ": ", entry->found));
      }
    };
    look(spec.exported_program, "exported_program");
    look(spec.weights, "weights");
    look(spec.labels, "labels");
    look(spec.sample, "sample");
    if (spec.exported_program && !spec.exported_program->found.empty()) {
      files_.push_back(spec.exported_program->found);
    } else if (spec.weights && !spec.weights->found.empty()) {
      files_.push_back(spec_);  // builds the model as the spec describes it
    }
    for (const char* backend : {"portable", "xnnpack"}) {
      const std::string path =
          cat(spec.folder.empty() ? "." : spec.folder, "/", spec.name, "_", backend, ".pte");
      if (file_exists(path)) files_.push_back(path);
    }
    if (files_.empty()) add(Finding::Level::kFault, spec_, "names no program that exists");
    return {};
  }

  void check_weights(const Artifact& artifact) {
    for (const Value* c : artifact.graph->constants()) {
      const Tensor& t = c->constant();
      if (!is_float(t.dtype())) continue;
      int64_t nan = 0;
      int64_t inf = 0;
      for (int64_t i = 0, n = t.num_elements(); i < n; ++i) {
        const double v = t.at(i);
        nan += std::isnan(v);
        inf += std::isinf(v);
      }
      t.storage()->release_pages();
      // Infinities are what masks are made of; NaN never means anything.
      if (nan > 0) {
        add(Finding::Level::kFault, artifact.path, cat("weight ", c->name(), ": ", nan, " NaN"));
      }
      if (inf > 0) {
        add(Finding::Level::kWarning, artifact.path, cat("weight ", c->name(), ": ", inf, " Inf"));
      }
    }
  }

  /// Rows of attention that may be masked as a whole.
  void check_masks(const Artifact& artifact) {
    const struct {
      const char* what;
      std::vector<Tensor> inputs;
    } kSets[] = {{"random inputs", random_inputs(*artifact.graph, 1)},
                 {"all masks 0", masked_inputs(*artifact.graph, 1)}};
    std::set<std::string> said;
    for (const auto& set : kSets) {
      const auto found = find_masked_rows(*artifact.graph, set.inputs);
      if (!found.ok()) {
        add(Finding::Level::kFault, artifact.path, found.status().message());
        return;
      }
      for (const MaskedRows& rows : *found) {
        if (!said.insert(rows.place).second) continue;
        add(Finding::Level::kWarning, artifact.path, cat(print(rows), " (", set.what, ")"));
      }
    }
  }

  /// The JSON that `lower` writes beside a .pte must describe this file.
  void check_metadata(const std::string& path) {
    if (!path.ends_with(".pte")) return;
    const std::string metadata = path.substr(0, path.size() - 4) + ".json";
    if (!file_exists(metadata)) return;
    const auto text = read_text_file(metadata);
    const auto json = text.ok() ? JsonValue::parse(*text) : Result<JsonValue>(text.status());
    if (!json.ok()) {
      add(Finding::Level::kFault, metadata, json.status().message());
      return;
    }
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    const JsonValue* size = json->find("size");
    const JsonValue* stated = size != nullptr ? size->find("file_bytes") : nullptr;
    const auto value = stated != nullptr ? stated->as_uint() : std::nullopt;
    if (value && *value != bytes) {
      add(Finding::Level::kFault, metadata, cat("states ", *value, " bytes, the file has ", bytes));
    } else if (value) {
      add(Finding::Level::kFine, metadata, "agrees with its file");
    }
  }

  /// Each file against the first, on random and structured inputs.
  void compare(const std::vector<Artifact>& files) {
    CompareOptions options;
    options.find_operator = false;  // that is what `compare` is for
    for (size_t f = 1; f < files.size(); ++f) {
      const auto comparison = compare_artifacts(files[0], files[f], options);
      if (!comparison.ok()) {
        add(Finding::Level::kFault, files[f].path, comparison.status().message());
        continue;
      }
      for (const InputSetComparison& set : comparison->sets) {
        for (const OutputComparison& o : set.outputs) add_output(files[0], files[f], set, o);
      }
    }
  }

  void add_output(const Artifact& first, const Artifact& other, const InputSetComparison& set,
                  const OutputComparison& o) {
    const bool fine = o.verdict != Verdict::kDifferent;
    const std::string what =
        o.type_a != o.type_b
            ? cat(o.type_b, ", ", o.type_a, " in ", first.path)
            : cat("largest difference to ", first.path, " is ",
                  static_cast<float>(o.metrics.max_abs), " on ", set.inputs, " inputs");
    add(fine ? Finding::Level::kFine : Finding::Level::kFault, other.path,
        cat("output ", o.name_a, ": ", what, o.why.empty() ? "" : cat(" (", o.why, ")")));
  }

  void print_findings() const {
    constexpr const char* kLevels[] = {"ok", "warning", "FAULT"};
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.key("findings").begin_array();
      for (const Finding& f : findings_) {
        json.begin_object();
        json.field("level", kLevels[static_cast<int>(f.level)]);
        json.field("file", f.file);
        json.field("text", f.text);
        json.end_object();
      }
      json.end_array();
      json.end_object();
      std::fputs(json.take().c_str(), stdout);
      return;
    }
    for (const Finding& f : findings_) {
      std::printf("%-8s %s: %s\n", kLevels[static_cast<int>(f.level)], f.file.c_str(),
                  f.text.c_str());
    }
  }

  std::vector<std::string> files_;
  std::string spec_;
  bool no_run_ = false;
  bool json_ = false;
  std::vector<Finding> findings_;
};

}  // namespace

std::unique_ptr<Verb> make_check() { return std::make_unique<Check>(); }

}  // namespace downhaul

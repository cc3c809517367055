#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "apps/app_model.h"
#include "base/strings.h"
#include "cli/model_flags.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "formats/json/json.h"
#include "formats/spec/spec.h"
#include "kernels/isa.h"
#include "report/artifact.h"
#include "report/delegation.h"
#include "report/runner.h"

namespace downhaul {
namespace {

class Run final : public Verb {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view summary() const override {
    return "Run a .pt2, a .pte or a checkpoint on inputs";
  }
  std::string_view details() const override {
    return "Inputs are matched by name, or by position with the keys 0, 1, …\n"
           "A checkpoint's model takes rows and tokens as the inputs have them, unless --seq-len "
           "or "
           "--batch say it.\n"
           "Examples:\n"
           "  downhaul run model.pte --inputs x.safetensors --outputs y.safetensors\n"
           "  downhaul run model.pt2 --random 7";
  }
  void declare(Options& o) override {
    o.positional(&file_, "FILE", "a .pt2, a .pte or a checkpoint (folder or weights)");
    model_.declare(o);
    o.text(&inputs_, "--inputs", "FILE", "the inputs: safetensors, or JSON {name: nested lists}");
    o.text(&image_, "--image", "FILE",
           "a PNG or JPEG image for the only input, prepared as model_spec.json says");
    o.text(&spec_, "--spec", "FILE",
           "the model_spec.json that --image goes by (default: the one beside FILE)");
    o.number(&seed_, "--random", "SEED", "random inputs drawn with this seed instead", 0,
             INT64_MAX);
    o.text(&outputs_, "--outputs", "FILE", "where to write the outputs (safetensors)");
    o.list(&keep_, "--output", "NAME", "compute only this output; may be repeated");
    o.number(&threads_, "--threads", "N", "threads to use; results do not depend on it", 1, 1024);
    o.text(&how_.cache, "--cache", "DIR", "keep packed weights here, and take them from here");
    o.choice(&precision_, "--precision", precision_names(),
             "f32 (default); bf16: of linear layers in the engine; fp16: every result rounded, as "
             "devices do that compute in it");
    o.flag(&how_.reference, "--reference",
           "use the reference kernels: slow, but the definition of right");
    o.number(&top_, "--top", "K", "show the K largest entries along the last axis of each output",
             0, 1000000);
    o.text(&labels_, "--labels", "FILE", "names for --top: one a line, or a JSON list");
    o.flag(&json_, "--json", "print a summary of the outputs as JSON");
  }

  Result<int> run() override {
    DH_TRY(lower_isa_by_environment());
    how_.threads = static_cast<int>(threads_);
    how_.precision = precision_of(precision_);
    if (how_.precision == engine::Precision::kBf16 && how_.reference) {
      return invalid_argument("run: the reference kernels know no --precision bf16");
    }
    if (file_.empty()) return invalid_argument("run: give a FILE");
    if (int{!inputs_.empty()} + int{seed_ >= 0} + int{!image_.empty()} != 1) {
      return invalid_argument("run: give one of --inputs FILE, --image FILE and --random SEED");
    }
    if (!labels_.empty() && top_ == 0) return invalid_argument("run: --labels needs --top K");
    if (!spec_.empty() && image_.empty()) {
      return invalid_argument("run: --spec says how --image FILE is prepared; there is none");
    }
    LoadOptions options;
    options.keep_outputs = keep_;
    DH_ASSIGN(options.model, model_.options());
    options.model.open_sizes = !inputs_.empty();
    DH_ASSIGN(const Artifact artifact, load_artifact(file_, options));
    for (const std::string& w : artifact.warnings) {
      std::fprintf(stderr, "downhaul: warning: %s\n", w.c_str());
    }
    const Graph& graph = *artifact.graph;
    std::vector<Tensor> inputs;
    if (!image_.empty()) {
      DH_ASSIGN(const Tensor photo, read_image_input(graph));
      inputs.push_back(photo);
    } else if (inputs_.empty()) {
      inputs = random_inputs(graph, static_cast<uint64_t>(seed_));
    } else {
      DH_ASSIGN(inputs, read_inputs(inputs_, graph));
    }
    if (artifact.pte != nullptr) delegation_ = delegation_report(*artifact.pte, nullptr);
    if (!json_) print_header(graph, inputs);
    warn_of_cache(how_.cache);
    auto runner = Runner::make(graph, how_);
    if (!runner.ok()) return fault(std::move(runner).status(), file_);
    const auto begin = std::chrono::steady_clock::now();
    auto results = (*runner)->run(inputs);
    if (!results.ok()) {
      Status status = std::move(results).status();
      if (!inputs_.empty()) status = std::move(status).with_context(printable(inputs_));
      return fault(std::move(status), file_);
    }
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    NamedTensors named;
    for (size_t i = 0; i < results->size(); ++i) {
      named.emplace_back(graph.outputs()[i].name, std::move((*results)[i]));
    }
    if (!outputs_.empty()) DH_TRY(write_tensors(outputs_, named));
    DH_TRY(read_label_file());
    summarise(named, ms);
    return kExitDone;
  }

 private:
  struct Summary {
    double min = 0, max = 0, mean = 0;
    int64_t not_finite = 0;
  };
  Result<Tensor> read_image_input(const Graph& graph) {
    std::optional<ModelSpec> spec;
    if (spec_.empty()) {
      DH_ASSIGN(spec, spec_beside(file_));
    } else {
      DH_ASSIGN(spec, read_model_spec(spec_));
    }
    DH_ASSIGN(const ImageInput input, find_image_input(graph, spec, file_));
    assumption_ = assumption(input);
    DH_ASSIGN(PhotoTensor photo, read_photo(image_, input));
    return std::move(photo.tensor);
  }

  /// Inputs that do not fit are the fault of their file, not of the command line.
  static Status fault(Status status, const std::string& file) {
    return Status(ErrorKind::kInvalidFile, status.message())
        .with_context(cat("'", printable(file), "'"));
  }

  static std::string counted(size_t n, std::string_view what) {
    return cat(n, " ", what, n == 1 ? "" : "s");
  }

  /// What a time depends on, before the time: coverage, kernels, threads, build.
  void print_header(const Graph& graph, const std::vector<Tensor>& inputs) const {
    const std::string coverage =
        delegation_.has_value()
            ? cat(counted(static_cast<size_t>(delegation_->call_sites), "delegate call site"), ", ",
                  counted(static_cast<size_t>(delegation_->kernel_calls), "kernel call"),
                  " outside")
            : counted(graph.nodes().size(), "node");
    std::printf("%s: %s; %s, %s build\n", printable(file_).c_str(), coverage.c_str(),
                describe(how_).c_str(), build_type());
    if (!assumption_.empty()) std::printf("%s\n", assumption_.c_str());
    for (size_t i = 0; i < inputs.size() && seed_ >= 0; ++i) {
      std::printf("%s: random %s\n", graph.inputs()[i]->name().c_str(),
                  describe(inputs[i]).c_str());
    }
    std::fflush(stdout);
  }

  Status read_label_file() {
    if (labels_.empty()) return {};
    // A vocabulary may well begin with '[': only the name tells lists of lines from JSON.
    if (labels_.ends_with(".json")) {
      DH_ASSIGN(label_names_, read_labels(labels_));
      return {};
    }
    DH_ASSIGN(const std::string text, read_text_file(labels_));
    for (const std::string_view line : split(text, '\n')) label_names_.emplace_back(line);
    if (!label_names_.empty() && label_names_.back().empty()) label_names_.pop_back();
    return {};
  }

  struct Entry {
    int64_t index;
    double value;
  };
  /// The largest of row `row`, NaN last, ties by index.
  std::vector<Entry> top_of(const Tensor& t, int64_t row) const {
    const int64_t width = t.rank() == 0 ? 1 : t.sizes().back();
    std::vector<Entry> all;
    for (int64_t i = 0; i < width; ++i) all.push_back({i, t.at(row * width + i)});
    const auto count = static_cast<ptrdiff_t>(std::min(top_, width));
    std::partial_sort(all.begin(), all.begin() + count, all.end(),
                      [](const Entry& a, const Entry& b) {
                        const double x = std::isnan(a.value) ? -INFINITY : a.value;
                        const double y = std::isnan(b.value) ? -INFINITY : b.value;
                        return x != y ? x > y : a.index < b.index;
                      });
    all.resize(static_cast<size_t>(count));
    return all;
  }
  static int64_t rows_of(const Tensor& t) {
    const int64_t width = t.rank() == 0 ? 1 : t.sizes().back();
    return width == 0 ? 0 : t.num_elements() / width;
  }
  std::string label(int64_t index) const {
    return static_cast<size_t>(index) < label_names_.size()
               ? label_names_[static_cast<size_t>(index)]
               : std::string();
  }

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
        for (int64_t row = 0; top_ > 0 && row < rows_of(tensor); ++row) {
          std::vector<std::string> parts;
          for (const Entry& e : top_of(tensor, row)) {
            const std::string text = label(e.index);
            parts.push_back(
                cat(text.empty() ? cat("#", e.index) : printable(text), " ", fixed(e.value, 3)));
          }
          std::printf("  top %d of row %d: %s\n", static_cast<int>(parts.size()),
                      static_cast<int>(row), join(parts, ", ").c_str());
        }
      }
      std::printf("evaluated in %s ms%s\n", fixed(ms, 1).c_str(),
                  how_.reference ? "" : ", packing of the weights included");
      if (!outputs_.empty()) std::printf("wrote %s\n", outputs_.c_str());
      return;
    }
    JsonWriter json;
    json.begin_object();
    json.field("file", file_);
    if (delegation_.has_value()) {
      json.field("delegate_call_sites", delegation_->call_sites);
      json.field("kernel_calls_outside", delegation_->kernel_calls);
    }
    json.field("kernels", how_.reference ? "reference" : "engine");
    json.field("precision", precision_);
    json.field("isa", downhaul::name(active_isa()));
    json.field("threads", threads_);
    json.field("build", build_type());
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
      if (top_ > 0) {
        json.key("top").begin_array();
        for (int64_t row = 0; row < rows_of(tensor); ++row) {
          json.begin_array();
          for (const Entry& e : top_of(tensor, row)) {
            json.begin_object();
            json.field("index", e.index);
            json.field("value", e.value);
            if (!label_names_.empty()) json.field("label", label(e.index));
            json.end_object();
          }
          json.end_array();
        }
        json.end_array();
      }
      json.end_object();
    }
    json.end_array();
    json.end_object();
    std::fputs(json.take().c_str(), stdout);
  }

  ModelFlags model_;
  std::string file_, inputs_, image_, spec_, outputs_, labels_, assumption_;
  std::optional<DelegationReport> delegation_;
  std::vector<std::string> label_names_;
  int64_t top_ = 0;
  std::vector<std::string> keep_;
  int64_t seed_ = -1;
  int64_t threads_ = 1;
  std::string precision_ = "f32";
  RunnerOptions how_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_run() { return std::make_unique<Run>(); }

}  // namespace downhaul

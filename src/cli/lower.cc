#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "base/strings.h"
#include "cli/lower_core_ml.h"
#include "cli/model_flags.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "formats/sniff.h"
#include "formats/spec/spec.h"
#include "ir/text.h"
#include "kernels/isa.h"
#include "passes/passes.h"
#include "report/artifact.h"
#include "report/comparison.h"
#include "report/delegation.h"
#include "report/json.h"
#include "report/size.h"
#include "targets/portable/portable.h"
#include "targets/xnnpack/xnnpack.h"

namespace downhaul {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

/// What is lowered and where the result goes.
struct Job {
  std::string source;  ///< .pt2, .pte or checkpoint
  std::string name;
  std::string model_id;
  std::optional<int64_t> seq_len;
  std::string folder;
  models::BuildOptions model;  ///< for a checkpoint
};

std::string stem_of(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  constexpr std::string_view kSuffix = "_exported";
  if (stem.ends_with(kSuffix)) stem.resize(stem.size() - kSuffix.size());
  return stem;
}

/// The exported program that a spec names, or else its weights.
Result<Job> job_of_spec(const std::string& path, const models::BuildOptions& options) {
  DH_ASSIGN(const ModelSpec spec, read_model_spec(path));
  const bool exported = spec.exported_program && !spec.exported_program->found.empty();
  const bool from_weights = !exported && spec.weights;
  DH_ASSIGN(std::string source, from_weights
                                    ? require(spec, spec.weights, "weights")
                                    : require(spec, spec.exported_program, "exported_program"));
  return Job{std::move(source), spec.name,   spec.model_id,
             spec.seq_len,      spec.folder, build_options(spec, options)};
}

/// The part of `options` that concerns the passes of one pipeline; what the other one knows is
/// dropped, so that a name is an error only when neither knows it.
struct Names {
  std::set<std::string> passes;
  std::set<std::string> rewrites;
  explicit Names(std::span<const Pass> list) {
    for (const Pass& pass : list) {
      passes.insert(pass.name);
      for (const Rewrite* r : pass.rewrites) rewrites.insert(r->name);
    }
  }
  bool knows(const std::string& name) const {
    return passes.contains(name) || rewrites.contains(name);
  }
};

PipelineOptions restricted(const PipelineOptions& options, const Names& names) {
  PipelineOptions out = options;
  if (!names.passes.contains(out.stop_after)) out.stop_after.clear();
  std::erase_if(out.disabled, [&](const std::string& n) { return !names.knows(n); });
  std::erase_if(out.print_after,
                [&](const std::string& n) { return n != "all" && !names.passes.contains(n); });
  return out;
}

Status check_names(const PipelineOptions& options, const Names& front, const Names& back) {
  const auto list = [&](bool rewrites) {
    std::set<std::string> all;  // what both pipelines have once
    for (const Names* n : {&front, &back}) {
      all.insert(n->passes.begin(), n->passes.end());
      if (rewrites) all.insert(n->rewrites.begin(), n->rewrites.end());
    }
    return join(all, ", ");
  };
  const auto is_pass = [&](const std::string& n) {
    return front.passes.contains(n) || back.passes.contains(n);
  };
  if (!options.stop_after.empty() && !is_pass(options.stop_after)) {
    return invalid_argument(
        cat("--stop-after: no pass '", printable(options.stop_after), "'; passes: ", list(false)));
  }
  for (const std::string& n : options.print_after) {
    if (n == "all" || is_pass(n)) continue;
    return invalid_argument(
        cat("--print-after: no pass '", printable(n), "'; passes: ", list(false)));
  }
  for (const std::string& n : options.disabled) {
    if (front.knows(n) || back.knows(n)) continue;
    return invalid_argument(
        cat("--disable: no rewrite or pass '", printable(n), "'; known: ", list(true)));
  }
  return {};
}

class Lower final : public Verb {
 public:
  std::string_view name() const override { return "lower"; }
  std::string_view summary() const override {
    return "Lower an exported program or a checkpoint to an ExecuTorch .pte file";
  }
  std::string_view details() const override {
    return "Examples:\n"
           "  downhaul lower --spec artifacts/distilbert/model_spec.json --backend xnnpack\n"
           "  downhaul lower model.pt2 --backend portable --out build\n"
           "  downhaul lower distilbert-base-uncased --head mlm --seq-len 128 --backend xnnpack\n"
           "  downhaul lower mobilenet_v2.pth --model-id mobilenet_v2 --backend xnnpack\n"
           "  downhaul lower lraspp.pt2 --backend xnnpack --output out\n"
           "  downhaul lower model.pt2 --backend xnnpack --print-after all --disable "
           "fold_constants";
  }

  void declare(Options& o) override {
    o.positional(&file_, "FILE",
                 "a .pt2, a checkpoint (folder or weights), or a .pte to lower it again");
    o.text(&spec_, "--spec", "FILE",
           "model_spec.json that names the exported program or the weights");
    o.choice(&backend_, "--backend", {"portable", "xnnpack", "coreml", "ane"},
             "what the file is for");
    o.text(&out_, "--out", "DIR", "folder for the results (default: beside the spec or the model)");
    o.text(&name_, "--name", "NAME",
           "base of the output names (default: from the spec or the file)");
    model_.declare(o);
    o.list(&outputs_, "--output", "NAME", "keep only this output of the model; may be repeated");
    o.flag(&exact_select_, "--exact-select",
           "pick rows by a kernel outside the delegates, so that non-finite values in other rows "
           "cannot spread");
    o.flag(&single_delegate_, "--single-delegate",
           "keep a delegate with many weights in one piece: one call less, but loading takes twice "
           "the weights' memory");
    o.flag(&embed_nodes_, "--embed-nodes", "store the names of the model's nodes in the .pte too");
    o.list(&print_after_, "--print-after", "PASS",
           "print the graph after this pass, or after 'all'");
    o.text(&stop_after_, "--stop-after", "PASS",
           "stop after this pass, print the graph, write nothing");
    o.list(&disable_, "--disable", "REWRITE", "leave out a rewrite or a pass");
    o.flag(&by_module_, "--by-module", "group the kernel calls outside by module of the model");
    o.flag(&verify_, "--verify",
           "run the file just written and its source on random and structured inputs; exit code 3 "
           "when they differ by more than rounding (the file is kept)");
    core_ml_.declare(o);
    o.flag(&fsync_, "--fsync", "wait until the file is on the disk");
    o.flag(&json_, "--json", "print the metadata as JSON instead of text");
  }

  Result<int> run() override {
    DH_TRY(lower_isa_by_environment());
    DH_ASSIGN(Job job, resolve());
    if (backend_.empty())
      return invalid_argument("lower: --backend is required (portable, xnnpack, coreml, ane)");
    const auto begin = Clock::now();
    say(cat("loading ", printable(job.source, 1000)));
    DH_ASSIGN(std::unique_ptr<Graph> graph, load(job));
    timings_.load_ms = milliseconds_since(begin);

    const auto lowering = Clock::now();
    say(cat("lowering to ", backend_));
    PipelineOptions options;
    options.stop_after = stop_after_;
    options.disabled.insert(disable_.begin(), disable_.end());
    options.print_after.insert(print_after_.begin(), print_after_.end());
    options.print = [](std::string_view pass, const Graph& g) {
      std::fprintf(stderr, "# after %s\n%s", std::string(pass).c_str(), print(g).c_str());
    };
    const Names front(canonical_passes());
    const std::vector<Pass> xnnpack = xnnpack_passes(exact_select_);
    const bool for_core_ml = backend_ == "coreml" || backend_ == "ane";
    if (!for_core_ml && core_ml_.given()) {
      return invalid_argument(
          "lower: --ios, --norm, --input-prefix, --compute, --weights, --check-fp16, --inputs and "
          "--strict "
          "are for "
          "--backend coreml and ane");
    }
    const Names back(backend_ == "ane"       ? ane_passes()
                     : for_core_ml           ? coreml_passes()
                     : backend_ == "xnnpack" ? std::span<const Pass>(xnnpack)
                                             : portable_passes());
    DH_TRY(check_names(options, front, back));
    const int64_t graph_nodes_before = static_cast<int64_t>(graph->nodes().size());
    PassLog log;
    bool stopped = false;
    PipelineOptions front_options = restricted(options, front);
    // The Neural Engine wants the last axis long: the row is picked at the end.
    if (backend_ == "ane") front_options.disabled.insert("select_before_project");
    DH_TRY(run_pipeline(*graph, canonical_passes(), front_options, &log, &stopped));
    if (stopped) return print_and_stop(*graph);

    const PipelineOptions back_options = restricted(options, back);
    if (for_core_ml) return run_core_ml(*graph, job, back_options, std::move(log));
    std::optional<Lowered> lowered;
    if (backend_ == "xnnpack") {
      XnnpackOptions x{back_options, {embed_nodes_}, exact_select_};
      if (single_delegate_) x.weight_limit = kOneDelegate;
      DH_ASSIGN(XnnpackLowered result, lower_xnnpack(*graph, x));
      outside_ = std::move(result.partition.outside);
      split_ = std::move(result.partition.split);
      lowered.emplace(std::move(result.lowered));
    } else {
      PortableOptions p{back_options, {embed_nodes_}};
      DH_ASSIGN(Lowered result, lower_portable(*graph, p));
      lowered.emplace(std::move(result));
    }
    if (lowered->stopped) return print_and_stop(*graph);
    log.entries.insert(log.entries.end(), lowered->log.entries.begin(), lowered->log.entries.end());
    timings_.lower_ms = milliseconds_since(lowering);

    const auto writing = Clock::now();
    DH_TRY(make_directories(job.folder));
    const std::string base = cat(job.folder, "/", job.name, "_", backend_);
    const std::string pte = cat(base, ".pte");
    {
      DH_ASSIGN(OutputFile out, OutputFile::create(pte));
      DH_ASSIGN([[maybe_unused]] const SizeReport size, write_program(lowered->program, out));
      DH_TRY(out.commit(fsync_));
    }
    timings_.write_ms = milliseconds_since(writing);
    timings_.total_ms = milliseconds_since(begin);

    DH_ASSIGN(std::string metadata, describe(job, pte, *graph, *lowered, log, graph_nodes_before));
    DH_TRY(write_file(cat(base, ".json"), as_bytes(metadata)));
    say(cat("wrote ", pte, "\nwrote ", base, ".json\n", text_));
    if (verify_) {
      // Takes long: whoever interrupts it has both files, and they agree.
      say("verifying");
      DH_TRY(verify(job, pte));
      say(print(*verification_));
      DH_ASSIGN(metadata, describe(job, pte, *graph, *lowered, log, graph_nodes_before));
      DH_TRY(write_file(cat(base, ".json"), as_bytes(metadata)));
    }
    if (json_) std::fputs(metadata.c_str(), stdout);
    if (!verification_ || verification_->verdict != Verdict::kDifferent) return kExitDone;
    std::fprintf(stderr, "downhaul: '%s' does not compute what '%s' does; it was kept\n",
                 printable(pte).c_str(), printable(job.source).c_str());
    return kExitDifference;
  }

 private:
  /// Printed at once, with the newline that it may lack.
  void say(const std::string& text) const {
    if (json_) return;
    std::printf("%s%s", text.c_str(), text.ends_with('\n') ? "" : "\n");
    std::fflush(stdout);
  }

  Result<Job> resolve() const {
    if (file_.empty() == spec_.empty()) {
      return invalid_argument("lower: give either a FILE or --spec FILE");
    }
    Job job;
    DH_ASSIGN(const models::BuildOptions model, model_.options());
    if (!spec_.empty()) {
      DH_ASSIGN(job, job_of_spec(spec_, model));
    } else if (sniff(file_) == FileType::kModelSpec) {
      DH_ASSIGN(job, job_of_spec(file_, model));
    } else {
      job.source = file_;
      job.name = stem_of(file_);
      job.folder = std::filesystem::path(file_).parent_path().string();
      job.model = model;
      if (is_directory(file_)) {
        // Its own name, not "." or what a trailing slash leaves; the results go into the folder.
        std::error_code error;
        job.name = std::filesystem::canonical(file_, error).filename().string();
        job.folder = file_;
      }
    }
    if (!out_.empty()) job.folder = out_;
    if (job.folder.empty()) job.folder = ".";
    if (!name_.empty()) job.name = name_;
    if (job.name.empty() || job.name.find('/') != std::string::npos) {
      return invalid_argument(
          cat("lower: '", printable(job.name), "' cannot be the base of file names"));
    }
    return job;
  }

  Result<std::unique_ptr<Graph>> load(Job& job) {
    LoadOptions options;
    options.keep_outputs = outputs_;
    options.model = job.model;
    DH_ASSIGN(Artifact artifact, load_artifact(job.source, options));
    for (const std::string& w : artifact.warnings) {
      std::fprintf(stderr, "downhaul: warning: %s\n", w.c_str());
    }
    const std::vector<Value*>& inputs = artifact.graph->inputs();
    if (artifact.kind == Artifact::Kind::kCheckpoint && inputs[0]->dtype() == DType::kI64) {
      job.seq_len = inputs[0]->shape().back().maybe_value();
    }
    if (artifact.kind == Artifact::Kind::kCheckpoint) facts_ = std::move(artifact.facts);
    unused_ = std::move(artifact.unused_weights);
    // Delegates compute in f32 only.
    if (artifact.kind == Artifact::Kind::kMlPackage && backend_ == "xnnpack") {
      DH_TRY(widen_f16(*artifact.graph).status());
    }
    return std::move(artifact.graph);
  }

  /// The file as written against the source as read anew.
  Status verify(const Job& job, const std::string& pte) {
    LoadOptions options;
    options.keep_outputs = outputs_;
    options.model = job.model;
    DH_ASSIGN(const Artifact source, load_artifact(job.source, options));
    DH_ASSIGN(const Artifact written, load_artifact(pte));
    DH_ASSIGN(verification_, compare_artifacts(source, written, {}));
    return {};
  }

  Result<int> run_core_ml(Graph& graph, const Job& job, const PipelineOptions& pipeline,
                          PassLog log) {
    DH_ASSIGN(coreml::EmitOptions emit, core_ml_.options());
    DH_TRY(make_directories(job.folder));
    DH_ASSIGN(const CoreMlWritten out,
              write_core_ml(graph, {job.source, job.name, job.model_id, backend_,
                                    cat(job.folder, "/", job.name, "_", backend_), job.seq_len,
                                    timings_.load_ms, pipeline, std::move(emit),
                                    core_ml_.fp16_check(), std::move(log)}));
    if (out.stopped) return print_and_stop(graph);
    say(out.text);
    if (json_) std::fputs(out.metadata.c_str(), stdout);
    return kExitDone;
  }

  static Result<int> print_and_stop(const Graph& graph) {
    std::fputs(print(graph).c_str(), stdout);
    return kExitDone;
  }

  Result<std::string> describe(const Job& job, const std::string& pte, const Graph& graph,
                               const Lowered& lowered, const PassLog& log, int64_t nodes_before);

  ModelFlags model_;
  CoreMlFlags core_ml_;
  std::vector<std::pair<std::string, std::string>> facts_;  // of a checkpoint
  std::vector<std::string> unused_;                         // its tensors that are not in the graph
  std::string file_, spec_, backend_, out_, name_, stop_after_;
  std::vector<std::string> outputs_, print_after_, disable_;
  std::optional<Comparison> verification_;
  bool verify_ = false, exact_select_ = false, single_delegate_ = false, embed_nodes_ = false,
       fsync_ = false, json_ = false, by_module_ = false;

  struct {
    double load_ms = 0, lower_ms = 0, write_ms = 0, total_ms = 0;
  } timings_;
  std::vector<OutsideNode> outside_;
  std::string split_;
  std::string text_;
};

Result<std::string> Lower::describe(const Job& job, const std::string& pte, const Graph& graph,
                                    const Lowered& lowered, const PassLog& log,
                                    int64_t nodes_before) {
  // Counted on the file as written, not on what was meant to be written.
  DH_ASSIGN(auto mapped, MappedFile::open(pte));
  DH_ASSIGN(const PteFile file, read_pte(std::move(mapped)));
  DelegationReport delegation = delegation_report(file, nullptr);
  add_graph_facts(delegation, graph, lowered.program, outside_);
  delegation.split = split_;
  const FileSizeReport size = size_report(file, UINT64_MAX);
  for (OutsideOperator& o : delegation.outside) {
    if (backend_ == "portable") o.reason = "the portable target has no delegates";
  }

  JsonWriter json;
  json.begin_object();
  json.field("model", job.name);
  json.field("model_id", job.model_id);
  json.field("backend", backend_);
  json.field(facts_.empty() ? "exported_program" : "checkpoint", job.source);
  if (!facts_.empty()) {
    json.key("built").begin_object();
    for (const auto& [key, value] : facts_) {
      if (!value.empty()) json.field(key, value);
    }
    json.field("unused_weights", unused_);
    json.end_object();
  }
  json.field("pte", pte);
  json.field("pte_size_mb", static_cast<double>(size.file_size) / 1e6);
  json.key("seq_len");
  json.value(job.seq_len);
  json.key("delegation");
  write_json(delegation, json);
  json.key("size");
  write_json(size, json);
  json.key("timings_ms").begin_object();
  json.field("loading", timings_.load_ms);
  json.field("lowering", timings_.lower_ms);
  json.field("writing", timings_.write_ms);
  json.field("total", timings_.total_ms);
  json.end_object();
  if (verification_) {
    json.key("verification");
    write_json(*verification_, json);
  }
  json.key("inputs");
  write_json_types(graph.inputs(), json);
  json.key("outputs").begin_array();
  for (const Output& o : graph.outputs()) {
    json.begin_object();
    json.field("name", o.name);
    json.field("type", o.value->type().str());
    json.end_object();
  }
  json.end_array();
  json.field("source_graph_nodes", nodes_before);
  if (backend_ == "xnnpack" && !exact_select_) {
    json.field("accepted_difference",
               "where a row is picked by a one-hot product, non-finite values in other rows may "
               "spread; --exact-select avoids it");
  }
  json.key("rewrites").begin_object();
  std::map<std::string, int> counts;
  for (const auto& e : log.entries) counts[e.rewrite.empty() ? e.pass : e.rewrite] += e.count;
  for (const auto& [rewrite, count] : counts) {
    if (count > 0) json.field(rewrite, count);
  }
  json.end_object();
  json.key("nodes").begin_array();
  for (const Origin& o : graph.origins) {
    json.begin_object();
    json.field("name", o.name);
    json.field("module", o.module_path);
    json.end_object();
  }
  json.end_array();
  json.field("downhaul", version());
  json.end_object();

  text_ =
      cat("PTE size: ", fixed(static_cast<double>(size.file_size) / 1e6, 2), " MB\n",
          print(delegation, by_module_), "loading ", fixed(timings_.load_ms, 1), " ms, lowering ",
          fixed(timings_.lower_ms, 1), " ms, writing ", fixed(timings_.write_ms, 1), " ms\n");
  return json.take();
}

}  // namespace

std::unique_ptr<Verb> make_lower() { return std::make_unique<Lower>(); }

}  // namespace downhaul

#include "cli/lower_core_ml.h"

#include <algorithm>
#include <chrono>

#include "base/strings.h"
#include "formats/json/json.h"
#include "formats/mlpackage/package.h"
#include "report/artifact.h"
#include "report/fp16_guard.h"
#include "targets/coreml/placement.h"

namespace downhaul {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

constexpr int64_t kOldest = 15, kNewest = 18;
/// The first to unpack weights.
constexpr int64_t kCompressing = 16;

std::string histogram_text(const std::map<std::string, int>& histogram) {
  std::vector<std::pair<int, std::string>> rows;
  for (const auto& [type, count] : histogram) rows.emplace_back(-count, type);
  std::sort(rows.begin(), rows.end());
  std::vector<std::string> parts;
  for (const auto& [count, type] : rows) parts.push_back(cat(type, " ", -count));
  return join(parts, ", ");
}

/// On the graph as it will be written. Constants of 1e-12 and the like are gone by then.
Result<Fp16Report> check_fp16(const Graph& graph, const Fp16Check& check) {
  std::vector<NamedInputs> sets;
  for (const std::string& path : check.inputs) {
    DH_ASSIGN(std::vector<Tensor> given, read_inputs(path, graph));
    sets.push_back({printable(path), std::move(given)});
  }
  return fp16_findings(graph, sets.empty() ? guard_inputs(graph) : sets);
}

}  // namespace

void CoreMlFlags::declare(Options& o) {
  o.number(&ios_, "--ios", "N",
           "oldest iOS that a Core ML package is for (default 15); from 16 on inputs and outputs "
           "are fp16",
           kOldest, kNewest);
  o.choice(&norm_, "--norm", {"fused", "primitive"},
           "layer norms for the Neural Engine as one operation each, or as nine (default fused)");
  o.text(&input_prefix_, "--input-prefix", "TEXT", "before the names of a Core ML model's inputs");
  o.flag(&check_, "--check-fp16",
         "compute a Core ML program on generated inputs first and say what FP16 would break");
  o.list(&inputs_, "--inputs", "FILE",
         "inputs for that check instead: safetensors or JSON; may be repeated");
  o.flag(&strict_, "--strict", "write nothing when that check finds an error");
  o.choice(&weights_, "--weights", {"fp16", "int8", "palette6", "palette4"},
           "of a Core ML program's matrices and filters: compressed ones need iOS 16");
  o.choice(&precision_, "--compute", {"fp16", "fp32"}, "of a Core ML program (default fp16)");
}

bool CoreMlFlags::given() const {
  return fp16_check().runs() || ios_ != 0 || !norm_.empty() || !input_prefix_.empty() ||
         !precision_.empty() || !weights_.empty();
}

Result<coreml::EmitOptions> CoreMlFlags::options() const {
  coreml::EmitOptions out;
  out.target.ios = static_cast<int>(ios_ != 0 ? ios_ : kOldest);
  out.primitive_norms = norm_ == "primitive";
  out.half = precision_ != "fp32";
  out.input_prefix = input_prefix_;
  using coreml::Compression;
  out.compression = weights_ == "int8"       ? Compression::kInt8
                    : weights_ == "palette6" ? Compression::kPalette6
                    : weights_ == "palette4" ? Compression::kPalette4
                                             : Compression::kNone;
  if (out.compression == Compression::kNone) return out;
  if (!out.half) return invalid_argument("lower: --weights compresses fp16 programs only");
  if (ios_ == kOldest) {
    return invalid_argument("lower: --weights " + weights_ +
                            " needs operations that iOS 15 does not have: --ios 16");
  }
  out.target.ios = static_cast<int>(std::max(ios_, kCompressing));
  return out;
}

Result<CoreMlWritten> write_core_ml(Graph& graph, CoreMlJob job) {
  const auto begin = Clock::now();
  DH_ASSIGN(CoreMlLowered lowered,
            lower_coreml(graph, {job.backend == "ane", job.pipeline, job.emit}));
  CoreMlWritten out;
  if (lowered.stopped) {
    out.stopped = true;
    return out;
  }
  const double lower_ms = milliseconds_since(begin);
  std::optional<Fp16Report> fp16;
  if (job.fp16_check.runs()) {
    DH_ASSIGN(fp16, check_fp16(graph, job.fp16_check));
    if (job.fp16_check.strict && fp16->has_errors()) {
      return unsupported(
          cat("FP16 would break this model, and --strict asks for no such file:\n", print(*fp16)));
    }
  }
  const auto writing = Clock::now();
  coreml::EmittedProgram& program = lowered.program;
  program.model.short_description = cat(job.name, ", lowered by downhaul");
  const std::string package = cat(job.base, ".mlpackage");
  DH_TRY(mil::write_mlpackage(package, program.model, program.weights));
  const double write_ms = milliseconds_since(writing);

  // Counted on the package as written.
  DH_ASSIGN(const mil::Package written, mil::read_mlpackage(package));
  int64_t constants = 0;
  for (const mil::Operation& o : written.model.program[0].block.operations) {
    constants += o.type == "const" ? 1 : 0;
  }
  const double size_mb = static_cast<double>(written.model_bytes + written.weight_bytes) / 1e6;
  JsonWriter json;
  json.begin_object();
  json.field("model", job.name);
  json.field("model_id", job.model_id);
  json.field("backend", job.backend);
  json.field("exported_program", job.source);
  json.field("mlpackage", package);
  json.field("mlpackage_size_mb", size_mb);
  json.field("seq_len", job.seq_len);
  json.field("ios", static_cast<int64_t>(job.emit.target.ios));
  json.field("specification_version", static_cast<int64_t>(written.model.specification_version));
  json.field("opset", written.model.program[0].opset);
  json.field("compute", job.emit.half ? "fp16" : "fp32");
  json.key("operations").begin_object();
  json.field("count", static_cast<int64_t>(program.operations));
  json.field("constants", constants);
  json.key("by_type").begin_object();
  for (const auto& [type, count] : program.histogram) json.field(type, static_cast<int64_t>(count));
  json.end_object();
  json.end_object();
  json.key("sizes").begin_object();
  json.field("model.mlmodel", written.model_bytes);
  json.field("weight.bin", written.weight_bytes);
  json.field("blobs", static_cast<int64_t>(program.weights.count()));
  json.end_object();
  json.key("compressed_weights").begin_object();
  for (const auto& [type, count] : program.compressed)
    json.field(type, static_cast<int64_t>(count));
  json.end_object();
  json.field("notes", program.notes);
  json.key("placement");
  const coreml::Placement placement = coreml::predict_placement(written.model.program[0]);
  write_json(placement, json);
  json.key("fp16");
  if (fp16) {
    write_json(*fp16, json);
  } else {
    json.null();
  }
  json.key("timings_ms").begin_object();
  json.field("load", job.load_ms);
  json.field("lower", lower_ms);
  json.field("write", write_ms);
  json.end_object();
  json.key("rewrites").begin_object();
  job.log.entries.insert(job.log.entries.end(), lowered.log.entries.begin(),
                         lowered.log.entries.end());
  std::map<std::string, int64_t> fired;
  for (const PassLog::Entry& e : job.log.entries) {
    fired[e.rewrite.empty() ? e.pass : e.rewrite] += e.count;
  }
  for (const auto& [rewrite, count] : fired) {
    if (count > 0) json.field(rewrite, count);
  }
  json.end_object();
  json.end_object();
  out.metadata = cat(json.take(), "\n");
  DH_TRY(write_file(cat(job.base, ".json"), as_bytes(out.metadata)));
  out.text =
      cat("wrote ", package, "\nwrote ", job.base, ".json\nmlpackage size: ", fixed(size_mb, 2),
          " MB (weight.bin ", written.weight_bytes, " bytes)\n", "operations: ", program.operations,
          " and ", constants, " constants (", histogram_text(program.histogram), ")\n");
  out.text += print(placement);
  if (fp16) out.text += print(*fp16);
  for (const auto& [type, count] : program.compressed) {
    out.text += cat("compressed weights: ", count, " by ", type, ", for iOS ", job.emit.target.ios,
                    " and later\n");
  }
  for (const std::string& note : program.notes) out.text += cat("note: ", note, "\n");
  out.text += cat("loading ", fixed(job.load_ms, 1), " ms, lowering ", fixed(lower_ms, 1),
                  " ms, writing ", fixed(write_ms, 1), " ms\n");
  return out;
}

}  // namespace downhaul

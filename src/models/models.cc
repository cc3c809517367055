#include "models/models.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"
#include "formats/sniff.h"
#include "models/family.h"

namespace downhaul::models {
namespace {

std::string in_quotes(std::string_view name) { return cat("'", printable(name), "'"); }

struct FamilyRow {
  std::string_view name;    ///< `model_type` of a config.json, or a model_id
  std::string_view prefix;  ///< that tensor names may have
  Status (*build)(Job& job);
  bool has_config;
};
constexpr FamilyRow kFamilies[] = {
    {"distilbert", "distilbert.", build_distilbert, true},
    {"bert", "bert.", build_bert, true},
    {"roberta", "roberta.", build_bert, true},
    {"xlm-roberta", "roberta.", build_bert, true},
    {"camembert", "roberta.", build_bert, true},
    {"gpt2", "transformer.", build_gpt2, true},
    {"mobilenet_v2", "model.", build_mobilenet_v2, false},
    {"mobilenet_v3_small", "model.", build_mobilenet_v3, false},
    {"mobilenet_v3_large", "model.", build_mobilenet_v3, false},
    {"lraspp_mobilenet_v3_large", "model.", build_lraspp, false},
    {"resnet18", "model.", build_resnet, false},
    {"resnet34", "model.", build_resnet, false},
    {"resnet50", "model.", build_resnet, false},
    {"resnet101", "model.", build_resnet, false},
    {"resnet152", "model.", build_resnet, false},
};

const FamilyRow* find_family(std::string_view name, bool has_config) {
  for (const FamilyRow& row : kFamilies) {
    if (row.name == name && row.has_config == has_config) return &row;
  }
  return nullptr;
}

std::vector<std::string> names_of(bool has_config) {
  std::vector<std::string> out;
  for (const FamilyRow& row : kFamilies) {
    if (row.has_config == has_config) out.emplace_back(row.name);
  }
  return out;
}

constexpr std::string_view kWeightFiles[] = {"model.safetensors", "model.safetensors.index.json",
                                             "pytorch_model.bin", "pytorch_model.bin.index.json"};

bool is_weight_file(const std::string& path) {
  for (const std::string_view ending : {".safetensors", ".bin", ".pth", ".pt"}) {
    if (path.ends_with(ending)) return true;
  }
  return false;
}

/// The one file of weights in `folder`. Errors: kNotFound, kInvalidFile when there are several.
Result<std::string> weights_in(const std::string& folder) {
  for (const std::string_view name : kWeightFiles) {
    const std::string path = cat(folder, "/", name);
    if (file_exists(path)) return path;
  }
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (is_weight_file(name) && name != "training_args.bin" && !is_directory(entry.path())) {
      found.push_back(name);
    }
  }
  if (found.size() == 1) return cat(folder, "/", found[0]);
  std::sort(found.begin(), found.end());
  if (!found.empty()) {
    return invalid_file(cat(in_quotes(folder), ": expected one file of weights, found ",
                            printable(join(found, ", "))));
  }
  return not_found(cat(
      in_quotes(folder), ": no weights; expected one of ",
      join(std::vector<std::string_view>(std::begin(kWeightFiles), std::end(kWeightFiles)), ", ")));
}

/// "mobilenet_v2" of "mobilenet_v2-b0353104.pth"; empty when the name says nothing.
std::string model_id_of(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  stem.resize(std::min(stem.size(), stem.find('-')));
  return find_family(stem, false) != nullptr ? stem : std::string();
}

struct Source {
  std::string folder;
  std::string weights;
  std::string config;  ///< "" when there is none
};

Result<Source> locate(const std::string& path) {
  Source out;
  if (is_directory(path)) {
    out.folder = path;
    while (out.folder.size() > 1 && out.folder.ends_with('/')) out.folder.pop_back();
    DH_ASSIGN(out.weights, weights_in(out.folder));
  } else {
    const std::string folder = std::filesystem::path(path).parent_path().string();
    out.folder = folder.empty() ? "." : folder;
    out.weights = path;
  }
  const std::string config = out.folder + "/config.json";
  if (file_exists(config)) out.config = config;
  return out;
}

Result<const FamilyRow*> family_of(const Source& source, const BuildOptions& options,
                                   Config& config) {
  if (!source.config.empty()) {
    DH_ASSIGN(config, Config::read(source.config));
    const std::string type = config.text("model_type", "");
    DH_TRY(config.status());
    if (!type.empty()) {
      if (const FamilyRow* row = find_family(type, true)) return row;
      return unsupported(cat(in_quotes(source.config), ": key 'model_type': ", in_quotes(type),
                             " is not known; known: ", join(names_of(true), ", ")));
    }
    // Old configurations lack the type; the class names begin with it.
    for (const std::string& architecture : config.texts("architectures")) {
      std::string lower;
      for (const char c : architecture) {
        lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      }
      for (const FamilyRow& row : kFamilies) {
        if (row.has_config && lower.starts_with(row.name)) return &row;
      }
    }
    if (options.model_id.empty()) {
      return invalid_file(cat(in_quotes(source.config), ": key 'model_type' is missing"));
    }
  }
  const std::string id = options.model_id.empty() ? model_id_of(source.weights) : options.model_id;
  if (const FamilyRow* row = find_family(id, false)) return row;
  if (!id.empty()) {
    return unsupported(
        cat(in_quotes(source.weights), ": model id ", in_quotes(id),
            " is not known; known without a config.json: ", join(names_of(false), ", ")));
  }
  return invalid_argument(cat(in_quotes(source.weights),
                              ": there is no config.json beside it; give --model-id, one of ",
                              join(names_of(false), ", ")));
}

struct TaskRow {
  std::string_view head;
  std::string_view task;
};
// Heads with their task in a model_spec.json; those of a task's first row are its usual ones.
constexpr TaskRow kHeads[] = {
    {"fill-mask", "fill-mask"},
    {"mlm", "fill-mask"},
    {"seqcls", "classification"},
    {"qa", "question-answering"},
    {"tokcls", "token-classification"},
    {"mc", "multiple-choice"},
    {"next-token", "text-generation"},
    {"lm", "text-generation"},
    {"embed", "embedding"},
    {"pooled", "embedding"},
    {"base", "embedding"},
};

Result<BuiltModel> build(const Source& source, const BuildOptions& options) {
  Config config;
  DH_ASSIGN(const FamilyRow* family, family_of(source, options, config));
  DH_ASSIGN(Weights weights, Weights::open(source.weights));
  DH_TRY(weights.rename(family->prefix));
  BuiltModel out;
  out.graph = std::make_unique<Graph>();
  out.family = family->name;
  Net net(*out.graph, weights);
  Job job{options, config, weights, net, source.folder, out};
  DH_TRY(family->build(job));
  if (family->has_config) {
    out.labels = config.labels();
    DH_TRY(config.status());
  }
  for (const TaskRow& row : kHeads) {
    if (row.head == out.head && out.task.empty()) out.task = row.task;
  }
  out.warnings.insert(out.warnings.end(), weights.warnings().begin(), weights.warnings().end());
  out.unused = weights.unused();
  if (!out.unused.empty()) {
    constexpr size_t kShown = 8;
    std::vector<std::string> shown(
        out.unused.begin(),
        out.unused.begin() + static_cast<ptrdiff_t>(std::min(kShown, out.unused.size())));
    std::string line = cat(in_quotes(weights.path()), ": ", out.unused.size(),
                           out.unused.size() == 1 ? " tensor is" : " tensors are",
                           " not used by this model: ", printable(join(shown, ", "), 400));
    if (out.unused.size() > kShown) line += cat(" and ", out.unused.size() - kShown, " more");
    out.warnings.push_back(std::move(line));
  }
  std::vector<std::pair<std::string, std::string>> facts = {
      {"family", out.family}, {"head", out.head}, {"task", out.task}};
  facts.emplace_back("weights", cat(printable(weights.path()), ", ", weights.num_tensors(),
                                    " tensors, ", weights.stored_types()));
  facts.insert(facts.end(), out.facts.begin(), out.facts.end());
  out.facts = std::move(facts);
  return out;
}

}  // namespace

std::string Job::input_name(size_t index, std::string_view usual) const {
  return index < options.input_names.size() ? options.input_names[index] : std::string(usual);
}

Status Job::finish(const std::vector<Value*>& values, const std::vector<std::string>& names) const {
  DH_TRY(net.status());
  const std::vector<std::string>& wanted =
      options.output_names.empty() ? names : options.output_names;
  if (wanted.size() != values.size()) {
    return invalid_argument(cat("the model has ", values.size(), " outputs (", join(names, ", "),
                                "), ", wanted.size(),
                                " are named: ", printable(join(wanted, ", "))));
  }
  for (size_t i = 0; i < values.size(); ++i) out.graph->add_output(values[i], wanted[i]);
  out.graph->remove_dead();
  return {};
}

Result<BuiltModel> build_checkpoint(const std::string& path, const BuildOptions& options) {
  DH_ASSIGN(const Source source, locate(path));
  return build(source, options);
}

Result<BuiltModel> build_from_files(const std::string& config, const std::string& weights,
                                    const BuildOptions& options) {
  const std::string folder = std::filesystem::path(weights).parent_path().string();
  return build({folder.empty() ? "." : folder, weights, config}, options);
}

bool is_checkpoint(const std::string& path) {
  switch (sniff(path)) {
    case FileType::kCheckpointFolder:
    case FileType::kSafetensors:
    case FileType::kTorchSave:
    case FileType::kTorchSaveLegacy:
      return true;
    case FileType::kFolder:
      return weights_in(path).ok();
    default:
      return path.ends_with(".safetensors") || path.ends_with(".pth") || path.ends_with(".bin");
  }
}

std::vector<std::string> known_heads() {
  std::vector<std::string> out;
  for (const TaskRow& row : kHeads) out.emplace_back(row.head);
  return out;
}

std::vector<std::string> known_model_ids() { return names_of(false); }

std::string_view head_of_task(std::string_view task) {
  for (const TaskRow& row : kHeads) {
    if (row.task == task) return row.head;
  }
  return {};
}

}  // namespace downhaul::models

#include "formats/spec/spec.h"

#include <algorithm>
#include <charconv>
#include <span>

#include "base/file.h"
#include "base/strings.h"
#include "formats/sniff.h"

namespace downhaul {
namespace {

std::string quoted(std::string_view name) { return cat("'", printable(name), "'"); }

Status wrong(std::string_view key, std::string_view expected, const JsonValue& found) {
  return invalid_file(cat("key '", key, "': expected ", expected, ", found ", found.kind_name()));
}

/// The member under the first of `keys` that is present and not null.
const JsonValue* member(const JsonValue& object, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const JsonValue* value = object.find(key);
    if (value && !value->is_null()) return value;
  }
  return nullptr;
}

Status read_text(const JsonValue& object, std::initializer_list<std::string_view> keys,
                 std::string& out) {
  const JsonValue* value = member(object, keys);
  if (!value) return {};
  if (!value->is_string()) return wrong(*keys.begin(), "a string", *value);
  out = *value->as_string();
  return {};
}

Status read_positive(const JsonValue& object, std::string_view key, std::optional<int64_t>& out) {
  const JsonValue* value = member(object, {key});
  if (!value) return {};
  const auto number = value->as_int();
  if (!number) return wrong(key, "a positive integer", *value);
  if (*number <= 0) {
    return invalid_file(cat("key '", key, "': expected a positive integer, found ", *number));
  }
  out = number;
  return {};
}

/// One positive integer, or [h, w].
Result<std::array<int64_t, 2>> read_extent(std::string_view key, const JsonValue& value) {
  const auto positive = [](const JsonValue& v) { return v.as_int().value_or(0) > 0; };
  if (positive(value)) return std::array{*value.as_int(), *value.as_int()};
  const JsonValue::Array& list = value.elements();
  if (list.size() == 2 && positive(list[0]) && positive(list[1])) {
    return std::array{*list[0].as_int(), *list[1].as_int()};
  }
  return wrong(key, "a positive integer or [height, width]", value);
}

Status read_three(const JsonValue& object, std::string_view key,
                  std::optional<std::array<double, 3>>& out) {
  const JsonValue* value = member(object, {key});
  if (!value) return {};
  const JsonValue::Array& list = value->elements();
  if (list.size() != 3 ||
      !std::all_of(list.begin(), list.end(), [](const JsonValue& v) { return v.is_number(); })) {
    return wrong(key, "a list of three numbers", *value);
  }
  out = std::array{*list[0].as_double(), *list[1].as_double(), *list[2].as_double()};
  return {};
}

constexpr std::string_view kTensorKeys[] = {"name", "dtype", "layout", "shape", "preprocessing"};
constexpr std::string_view kPreprocessingKeys[] = {"resize", "center_crop", "letterbox",
                                                   "mean",   "std",         "interpolation"};

bool is_one_of(std::span<const std::string_view> keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

Status read_preprocessing(const JsonValue& object, Preprocessing& out) {
  if (const JsonValue* value = member(object, {"resize"})) {
    DH_ASSIGN(const auto extent, read_extent("resize", *value));
    out.resize = Preprocessing::Resize{extent[0], extent[1], value->is_integer()};
  }
  if (const JsonValue* value = member(object, {"center_crop"})) {
    DH_ASSIGN(out.center_crop, read_extent("center_crop", *value));
  }
  if (const JsonValue* value = member(object, {"letterbox"})) {
    if (!value->is_bool()) return wrong("letterbox", "true or false", *value);
    out.letterbox = *value->as_bool();
  }
  DH_TRY(read_three(object, "mean", out.mean));
  DH_TRY(read_three(object, "std", out.std));
  return read_text(object, {"interpolation"}, out.interpolation);
}

Status read_tensor_spec(const JsonValue& object, TensorSpec& out) {
  if (!object.is_object())
    return invalid_file(cat("expected an object, found ", object.kind_name()));
  DH_TRY(read_text(object, {"name"}, out.name));
  DH_TRY(read_text(object, {"dtype"}, out.dtype));
  DH_TRY(read_text(object, {"layout"}, out.layout));
  if (const JsonValue* shape = member(object, {"shape"})) {
    if (!shape->is_array()) return wrong("shape", "a list of integers", *shape);
    for (const JsonValue& size : shape->elements()) {
      const auto number = size.as_int();
      if (!number || *number < 0) return wrong("shape", "a list of sizes", *shape);
      out.shape.push_back(*number);
    }
  }
  const JsonValue* nested = member(object, {"preprocessing"});
  if (nested && !nested->is_object()) return wrong("preprocessing", "an object", *nested);
  // The short spelling has the preprocessing keys beside the tensor's own.
  for (const auto& [key, value] : object.members()) {
    const bool known =
        is_one_of(kTensorKeys, key) || (!nested && is_one_of(kPreprocessingKeys, key));
    if (!known) out.other.emplace_back(key, value);
  }
  if (!nested) return read_preprocessing(object, out.preprocessing);
  for (const auto& [key, value] : nested->members()) {
    if (!is_one_of(kPreprocessingKeys, key)) out.preprocessing.other.emplace_back(key, value);
  }
  return read_preprocessing(*nested, out.preprocessing);
}

/// One object or a list of them, under either spelling.
Status read_tensor_specs(const JsonValue& document, std::string_view singular,
                         std::string_view plural, std::vector<TensorSpec>& out) {
  const JsonValue* value = member(document, {plural, singular});
  if (!value) return {};
  if (!value->is_array() && !value->is_object()) {
    return wrong(plural, "an object or a list of objects", *value);
  }
  const size_t count = value->is_array() ? value->elements().size() : 1;
  for (size_t i = 0; i < count; ++i) {
    const JsonValue& item = value->is_array() ? value->elements()[i] : *value;
    Status status = read_tensor_spec(item, out.emplace_back());
    if (!status.ok()) return std::move(status).with_context(cat(plural, "[", i, "]"));
  }
  return {};
}

SpecPath resolve(const std::string& folder, const std::string& written) {
  SpecPath out{written, "", ""};
  const std::string beside = written.starts_with('/') ? written : folder + "/" + written;
  if (file_exists(beside)) {
    out.found = beside;
  } else if (file_exists(written)) {
    out.found = written;
  } else {
    out.error = beside == written ? cat(quoted(written), " does not exist")
                                  : cat(quoted(written), " exists neither as ", quoted(beside),
                                        " (beside the spec) nor in the current folder");
  }
  return out;
}

Status read_path(const JsonValue& document, const std::string& folder,
                 std::initializer_list<std::string_view> keys, std::optional<SpecPath>& out) {
  std::string written;
  DH_TRY(read_text(document, keys, written));
  if (written.empty()) return {};
  if (written.find('\0') != std::string::npos) {
    return invalid_file(cat("key '", *keys.begin(), "': the path holds a NUL byte"));
  }
  out = resolve(folder, written);
  return {};
}

struct TaskRow {
  std::string_view marker;
  std::string_view task;
};
// Class names in `architectures` end like this.
constexpr TaskRow kTaskOfArchitecture[] = {
    {"ForMaskedLM", "fill-mask"},
    {"LMHeadModel", "text-generation"},
    {"ForCausalLM", "text-generation"},
    {"ForSequenceClassification", "classification"},
    {"ForImageClassification", "classification"},
    {"ForQuestionAnswering", "question-answering"},
    {"ForTokenClassification", "token-classification"},
    {"ForMultipleChoice", "multiple-choice"},
};
// Model ids that have one task only.
constexpr TaskRow kTaskOfModelId[] = {
    {"lraspp", "segmentation"},        {"deeplab", "segmentation"},
    {"fcn_", "segmentation"},          {"gpt2", "text-generation"},
    {"distilgpt2", "text-generation"}, {"mobilenet_v", "classification"},
    {"resnet", "classification"},      {"efficientnet", "classification"},
    {"convnext", "classification"},    {"swin_", "classification"},
    {"vit_", "classification"},        {"MiniLM", "embedding"},
};

std::string derive_task(const JsonValue& document, const std::string& model_id) {
  if (const JsonValue* list = member(document, {"architectures"})) {
    for (const JsonValue& item : list->elements()) {
      const std::string* architecture = item.as_string();
      for (const TaskRow& row : kTaskOfArchitecture) {
        if (architecture && architecture->ends_with(row.marker)) return std::string(row.task);
      }
    }
  }
  // Longer markers decide first: an LR-ASPP's id names its MobileNet backbone too.
  for (const TaskRow& row : kTaskOfModelId) {
    if (model_id.find(row.marker) != std::string::npos) return std::string(row.task);
  }
  return {};
}

std::string stem(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  if (const size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0) name.resize(dot);
  constexpr std::string_view kExported = "_exported";
  if (name.ends_with(kExported) && name.size() > kExported.size()) {
    name.resize(name.size() - kExported.size());
  }
  return name;
}

/// `name`, or the short spelling `model` unless that is the program's path; else a file's stem.
Status read_name(const JsonValue& document, ModelSpec& out) {
  DH_TRY(read_text(document, {"name"}, out.name));
  std::string model;
  DH_TRY(read_text(document, {"model"}, model));
  const bool is_path = model.ends_with(".pt2");
  if (out.name.empty() && !is_path) out.name = model;
  if (out.name.empty()) {
    out.name = stem(out.exported_program ? out.exported_program->written
                    : out.weights        ? out.weights->written
                                         : out.path);
  }
  if (out.name.find_first_of(std::string("/\\\0", 3)) != std::string::npos || out.name == "." ||
      out.name == "..") {
    return invalid_file(cat("key 'name': ", quoted(out.name), " is no file name"));
  }
  return {};
}

Status read_paths(const JsonValue& document, ModelSpec& out) {
  DH_TRY(read_path(document, out.folder, {"exported_program", "pt2"}, out.exported_program));
  if (!out.exported_program) {
    const JsonValue* model = member(document, {"model"});
    if (model && model->is_string() && model->as_string()->ends_with(".pt2")) {
      DH_TRY(read_path(document, out.folder, {"model"}, out.exported_program));
    }
  }
  DH_TRY(read_path(document, out.folder, {"weights", "checkpoint", "state_dict"}, out.weights));
  DH_TRY(read_path(document, out.folder, {"labels", "labels_path"}, out.labels));
  DH_TRY(read_path(document, out.folder, {"sample", "sample_image"}, out.sample));
  std::optional<SpecPath> tokenizer;
  DH_TRY(read_path(document, out.folder, {"tokenizer"}, tokenizer));
  out.tokenizer = tokenizer.value_or(SpecPath{"", out.folder, ""});
  return {};
}

Status fill(ModelSpec& out) {
  const JsonValue& document = out.document;
  if (!document.is_object()) {
    return invalid_file(cat("expected a JSON object, found ", document.kind_name()));
  }
  DH_TRY(read_text(document, {"model_id"}, out.model_id));
  DH_TRY(read_text(document, {"task"}, out.task));
  if (out.task.empty()) out.task = derive_task(document, out.model_id);
  DH_TRY(read_positive(document, "seq_len", out.seq_len));
  DH_TRY(read_positive(document, "batch", out.batch));
  DH_TRY(read_paths(document, out));
  DH_TRY(read_name(document, out));
  DH_TRY(read_tensor_specs(document, "input", "inputs", out.inputs));
  DH_TRY(read_tensor_specs(document, "output", "outputs", out.outputs));
  // A text input is [batch, seq_len].
  if (!out.inputs.empty() && out.inputs.front().shape.size() == 2) {
    const std::vector<int64_t>& shape = out.inputs.front().shape;
    if (!out.batch && shape[0] > 0) out.batch = shape[0];
    if (!out.seq_len && shape[1] > 0) out.seq_len = shape[1];
  }
  return {};
}

}  // namespace

Result<ModelSpec> parse_model_spec(std::string_view text, const std::string& path) {
  ModelSpec out;
  out.path = path;
  const size_t slash = path.rfind('/');
  out.folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const std::string context = cat("while reading ", quoted(path));
  auto document = JsonValue::parse(text);
  if (!document.ok()) return std::move(document).status().with_context(context);
  out.document = *std::move(document);
  DH_TRY(fill(out).with_context(context));
  return out;
}

Result<ModelSpec> read_model_spec(const std::string& path) {
  const FileType type = sniff(path);
  if (type != FileType::kJson && type != FileType::kModelSpec && type != FileType::kText) {
    return unexpected_file(path, "a model spec (JSON)");
  }
  DH_ASSIGN(const std::string text, read_text_file(path));
  return parse_model_spec(text, path);
}

Result<std::string> require(const ModelSpec& spec, const std::optional<SpecPath>& entry,
                            std::string_view key) {
  if (!entry) return invalid_file(cat(quoted(spec.path), ": key '", key, "' is missing"));
  if (entry->found.empty()) {
    return not_found(cat(quoted(spec.path), ": key '", key, "': ", entry->error));
  }
  return entry->found;
}

Result<std::vector<std::string>> read_labels(const std::string& path) {
  DH_ASSIGN(const std::string text, read_text_file(path));
  const std::string context = cat("while reading ", quoted(path));
  auto parsed = JsonValue::parse(text);
  if (!parsed.ok()) return std::move(parsed).status().with_context(context);
  std::vector<std::string> labels;
  for (const JsonValue& item : parsed->elements()) {
    if (!item.is_string()) {
      return invalid_file(cat(context, ": label ", labels.size(), " is no string"));
    }
    labels.push_back(*item.as_string());
  }
  labels.resize(labels.size() + parsed->members().size());
  std::vector<bool> seen(labels.size());
  for (const auto& [id, label] : parsed->members()) {
    size_t number = 0;
    const auto r = std::from_chars(id.data(), id.data() + id.size(), number);
    if (r.ec != std::errc() || r.ptr != id.data() + id.size() || number >= labels.size() ||
        seen[number] || !label.is_string()) {
      return invalid_file(cat(context, ": label ", quoted(id),
                              ": expected ids from 0 without holes and string labels"));
    }
    seen[number] = true;
    labels[number] = *label.as_string();
  }
  if (labels.empty()) {
    return invalid_file(cat(context, ": expected a list of labels or an object id -> label"));
  }
  return labels;
}

}  // namespace downhaul

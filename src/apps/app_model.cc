#include "apps/app_model.h"

#include <charconv>
#include <filesystem>
#include <utility>

#include "base/strings.h"
#include "formats/sniff.h"

namespace downhaul {

std::string folder_of_model(const std::string& path) {
  const bool package = sniff(path) == FileType::kMlPackage;
  if (is_directory(path) && !package) return path;
  std::string file = path;
  while (package && file.size() > 1 && file.ends_with('/')) file.pop_back();
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

Result<std::optional<ModelSpec>> spec_beside(const std::string& path) {
  const std::string found = cat(folder_of_model(path), "/model_spec.json");
  if (!file_exists(found)) return std::optional<ModelSpec>();
  DH_ASSIGN(ModelSpec spec, read_model_spec(found));
  return std::optional<ModelSpec>(std::move(spec));
}

Result<AppModel> AppModel::load(const std::string& path, const AppModelOptions& options) {
  AppModel model;
  std::string file = path;
  if (sniff(path) == FileType::kModelSpec) {
    DH_ASSIGN(model.spec_, read_model_spec(path));
    const bool exported =
        model.spec_->exported_program.has_value() && !model.spec_->exported_program->found.empty();
    const bool weights = model.spec_->weights.has_value() && !model.spec_->weights->found.empty();
    if (!exported && weights) {
      file = model.spec_->weights->found;
    } else {
      DH_ASSIGN(file, require(*model.spec_, model.spec_->exported_program, "exported_program"));
    }
  } else {
    if (options.spec.empty()) {
      DH_ASSIGN(model.spec_, spec_beside(path));
    } else {
      DH_ASSIGN(model.spec_, read_model_spec(options.spec));
    }
  }
  if (model.spec_.has_value() && model.spec_->labels.has_value()) {
    DH_ASSIGN(const std::string labels, require(*model.spec_, model.spec_->labels, "labels"));
    DH_ASSIGN(model.labels_, read_labels(labels));
  }
  LoadOptions load;
  if (model.spec_.has_value()) load.model = build_options(*model.spec_);
  DH_ASSIGN(Artifact artifact, load_artifact(file, load));
  if (model.labels_.empty()) model.labels_ = artifact.labels;
  model.artifact_ = std::make_unique<Artifact>(std::move(artifact));
  DH_ASSIGN(model.runner_, Runner::make(model.graph(), options.how));
  return model;
}

std::string AppModel::label(int64_t id) const {
  const auto index = static_cast<size_t>(id);
  return id >= 0 && index < labels_.size() ? labels_[index] : cat("class ", id);
}

Result<std::optional<int64_t>> find_class(const AppModel& model, const std::string& wanted,
                                          int64_t num_classes) {
  for (size_t i = 0; i < model.labels().size(); ++i) {
    if (model.labels()[i] == wanted) return std::optional<int64_t>(static_cast<int64_t>(i));
  }
  int64_t id = -1;
  const char* end = wanted.data() + wanted.size();
  const auto parsed = std::from_chars(wanted.data(), end, id);
  if (parsed.ec == std::errc() && parsed.ptr == end && id >= 0 && id < num_classes) {
    return std::optional<int64_t>(id);
  }
  return invalid_argument(cat("class '", printable(wanted), "': expected ",
                              model.labels().empty() ? "" : "a label of the model or ",
                              "a number from 0 to ", num_classes - 1,
                              model.labels().empty()
                                  ? std::string()
                                  : cat("; labels: ", printable(join(model.labels(), ", "), 500))));
}

std::string assumption(const ImageInput& input) {
  if (input.assumed) {
    return cat("no model_spec.json: resized to ", input.height, " x ", input.width,
               ", mean and std of ImageNet");
  }
  if (!input.preprocessing.mean.has_value() && !input.preprocessing.std.has_value()) {
    return "model_spec.json states neither mean nor std: values from 0 to 1";
  }
  return "";
}

Result<PhotoTensor> prepare_photo(Image photo, const ImageInput& input) {
  DH_ASSIGN(const PreparedImage prepared,
            prepare_image(photo, input.preprocessing, input.height, input.width));
  Tensor tensor = Tensor::from<float>({1, 3, input.height, input.width}, prepared.values);
  return PhotoTensor{std::move(photo), std::move(tensor), prepared.placement};
}

Result<PhotoTensor> read_photo(const std::string& path, const ImageInput& input) {
  DH_ASSIGN(Image photo, read_image(path));
  auto prepared = prepare_photo(std::move(photo), input);
  if (!prepared.ok()) {
    return std::move(prepared).status().with_context(cat("'", printable(path), "'"));
  }
  return prepared;
}

Result<ImageInput> find_image_input(const Graph& graph, const std::optional<ModelSpec>& model_spec,
                                    const std::string& path) {
  const auto refuse = [&] {
    std::vector<std::string> inputs;
    for (const Value* v : graph.inputs()) inputs.push_back(cat(v->name(), ": ", v->type().str()));
    return invalid_argument(
        cat("'", printable(path),
            "': expected a model of one picture, f32[1,3,height,width]; this one "
            "takes ",
            inputs.empty() ? "nothing" : join(inputs, ", ")));
  };
  if (graph.inputs().size() != 1) return refuse();
  const Value& value = *graph.inputs()[0];
  if (value.dtype() != DType::kF32 || value.rank() != 4) return refuse();
  const TensorSpec* spec = nullptr;
  if (model_spec.has_value() && !model_spec->inputs.empty()) {
    spec = &model_spec->inputs[0];
    for (const TensorSpec& t : model_spec->inputs) {
      if (t.name == value.name()) spec = &t;
    }
  }
  const auto size = [&](int64_t axis) {
    const auto known = value.dim(axis).maybe_value();
    if (known.has_value()) return *known;
    const bool stated = spec != nullptr && spec->shape.size() == 4;
    return stated ? spec->shape[static_cast<size_t>(axis)] : value.dim(axis).max();
  };
  ImageInput input;
  input.height = size(2);
  input.width = size(3);
  // A batch that may be 1 is one picture.
  const Dim& batch = value.dim(0);
  if (batch.min() > 1 || batch.max() < 1 || size(1) != 3) return refuse();
  if (spec != nullptr) {
    input.preprocessing = spec->preprocessing;
  } else {
    input.assumed = true;
    input.preprocessing.mean = {0.485, 0.456, 0.406};
    input.preprocessing.std = {0.229, 0.224, 0.225};
  }
  return input;
}

}  // namespace downhaul

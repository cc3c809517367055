#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/spec/spec.h"
#include "image/image.h"
#include "image/preprocess.h"
#include "report/artifact.h"
#include "report/runner.h"

/// What an application needs of a model: the program ready to run, and what model_spec.json says of
/// its inputs, labels and task.
namespace downhaul {

struct AppModelOptions {
  /// model_spec.json; "" means the one beside the model's file, if there is one.
  std::string spec;
  RunnerOptions how;
};

class AppModel {
 public:
  /// `path`: any artifact that runs, or a model_spec.json, whose program is taken then.
  /// Errors: as the readers'; kNotFound for a spec that is named and missing.
  static Result<AppModel> load(const std::string& path, const AppModelOptions& options);

  const std::string& path() const { return artifact_->path; }
  const Graph& graph() const { return *artifact_->graph; }
  const std::vector<std::string>& warnings() const { return artifact_->warnings; }
  const std::optional<ModelSpec>& spec() const { return spec_; }
  /// In class-id order; empty when the spec names none.
  const std::vector<std::string>& labels() const { return labels_; }
  /// As model_spec.json spells it, by the spec or by the checkpoint; "" when neither says.
  const std::string& task() const {
    return spec_ && !spec_->task.empty() ? spec_->task : artifact_->task;
  }
  /// The label of a class, or "class 7".
  std::string label(int64_t id) const;
  /// Outputs in the graph's order. Not for several callers at a time.
  /// Errors: kInvalidArgument for inputs that do not fit.
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs) {
    return runner_->run(inputs);
  }

 private:
  std::unique_ptr<Artifact> artifact_;  ///< the runner points into it
  std::optional<ModelSpec> spec_;
  std::vector<std::string> labels_;
  std::unique_ptr<Runner> runner_;
};

/// A class by its label or its number. Errors: kInvalidArgument naming what there is.
Result<std::optional<int64_t>> find_class(const AppModel& model, const std::string& wanted,
                                          int64_t num_classes);

/// The graph input that takes a picture: f32 [1, 3, height, width], and nothing else to fill.
struct ImageInput {
  size_t index = 0;
  int64_t height = 0;
  int64_t width = 0;
  Preprocessing preprocessing;
  bool assumed = false;  ///< no spec states the preprocessing
};
/// Whether the program of `path` takes one picture. Errors: kInvalidArgument saying what it takes
/// instead. Sizes that the program leaves open come from the spec's shape. Without a spec: resized
/// to the input's size, mean and std of ImageNet, which nearly every published network was trained
/// with.
Result<ImageInput> find_image_input(const Graph& graph, const std::optional<ModelSpec>& spec,
                                    const std::string& path);
/// What was taken for granted, in a line to show, since another mean gives other results; "" when
/// the spec states how pictures are prepared.
std::string assumption(const ImageInput& input);
/// Where what belongs to a model lies: itself when it is a folder (a checkpoint), else the folder
/// of its file or .mlpackage.
std::string folder_of_model(const std::string& path);
/// The spec beside a model's file or in its folder, if there is one.
/// Errors: those of a spec that cannot be read.
Result<std::optional<ModelSpec>> spec_beside(const std::string& path);

/// A picture, and as the model takes it: f32[1,3,height,width].
struct PhotoTensor {
  Image photo;
  Tensor tensor;
  Placement placement;
};
/// Errors: as prepare_image.
Result<PhotoTensor> prepare_photo(Image photo, const ImageInput& input);
/// Errors: as read_image and prepare_image, with the path.
Result<PhotoTensor> read_photo(const std::string& path, const ImageInput& input);

}  // namespace downhaul

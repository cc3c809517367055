#include "serve/vision_tasks.h"

#include <chrono>
#include <utility>

#include "apps/photo_classes.h"
#include "apps/segmentation.h"
#include "base/strings.h"

namespace downhaul {
namespace {

/// What both have in common: a photo goes in.
class PhotoTask : public Task {
 public:
  PhotoTask(AppModel model, ImageInput input)
      : model_(std::move(model)), input_(std::move(input)) {}

 protected:
  Result<PhotoTensor> photo(const TaskInput& request) const {
    if (request.image.empty()) return invalid_argument("image: expected a PNG or JPEG image");
    // A page's visitor sends photos; what fits no screen is no photo.
    constexpr ImageLimits kLimits{.max_pixels = int64_t{1} << 26};
    DH_ASSIGN(Image image, decode_image(as_bytes(request.image), kLimits));
    return prepare_photo(std::move(image), input_);
  }

  AppModel model_;
  ImageInput input_;
};

class SegmentTask final : public PhotoTask {
 public:
  using PhotoTask::PhotoTask;
  std::string_view name() const override { return "segment"; }
  std::string_view summary() const override { return "Cut an object out of a photo"; }
  std::vector<TaskField> fields() const override {
    return {{"image", TaskField::Kind::kImage, "Photo", ""},
            {"class", TaskField::Kind::kText, "Class (empty: the largest object)", ""}};
  }
  Result<TaskOutput> run(const TaskInput& request) override {
    DH_ASSIGN(const PhotoTensor seen, photo(request));
    const auto begin = std::chrono::steady_clock::now();
    DH_ASSIGN(const std::vector<Tensor> outputs, model_.run({seen.tensor}));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    DH_ASSIGN(const ClassMap map,
              best_classes(outputs[0], static_cast<int64_t>(model_.labels().size())));
    const std::vector<ClassShare> shares = class_shares(map, seen.placement);
    std::optional<int64_t> chosen = main_class(shares);
    const std::string wanted = request.text("class");
    if (!wanted.empty()) {
      DH_ASSIGN(chosen, find_class(model_, wanted, map.num_classes));
    }
    TaskOutput out;
    out.forward_ms = took.count();
    for (const ClassShare& s : shares) out.items.push_back({model_.label(s.id), s.share});
    out.text = chosen.has_value()
                   ? cat("Selected class: ", model_.label(*chosen), " (", *chosen, ")")
                   : "Selected class: none, there is only background";
    if (!chosen.has_value()) return out;
    const Image alpha = class_alpha(map, seen.placement, *chosen);
    DH_ASSIGN(auto cut, encode_png(cutout(seen.photo, alpha)));
    DH_ASSIGN(auto laid, encode_png(overlay(seen.photo, alpha, *chosen)));
    DH_ASSIGN(auto mask, encode_png(hard_mask(alpha)));
    out.pictures.push_back({"cutout", std::move(cut)});
    out.pictures.push_back({"overlay", std::move(laid)});
    out.pictures.push_back({"mask", std::move(mask)});
    return out;
  }
};

class ClassifyTask final : public PhotoTask {
 public:
  using PhotoTask::PhotoTask;
  std::string_view name() const override { return "classify"; }
  std::string_view summary() const override { return "Say what a photo shows"; }
  std::vector<TaskField> fields() const override {
    return {{"image", TaskField::Kind::kImage, "Photo", ""},
            {"top", TaskField::Kind::kNumber, "Answers", "5"}};
  }
  Result<TaskOutput> run(const TaskInput& request) override {
    DH_ASSIGN(const int64_t top, request.number("top", 5, 1, 1000));
    DH_ASSIGN(const PhotoTensor seen, photo(request));
    DH_ASSIGN(const PhotoClasses found, classify_photo(model_, seen, top));
    TaskOutput out;
    out.forward_ms = found.forward_ms;
    for (const Ranked& r : found.classes) {
      out.items.push_back({model_.label(r.index), r.probability});
    }
    return out;
  }
};

}  // namespace

Result<std::unique_ptr<Task>> make_vision_task(AppModel model, ImageInput input) {
  const Value& output = *model.graph().outputs()[0].value;
  if (output.dtype() == DType::kF32 && output.rank() == 4) {
    return std::unique_ptr<Task>(std::make_unique<SegmentTask>(std::move(model), std::move(input)));
  }
  if (output.dtype() == DType::kF32 && output.rank() == 2) {
    return std::unique_ptr<Task>(
        std::make_unique<ClassifyTask>(std::move(model), std::move(input)));
  }
  return unsupported(cat("'", printable(model.path()),
                         "': expected class scores f32[1,classes] or "
                         "f32[1,classes,height,width], found ",
                         output.type().str()));
}

}  // namespace downhaul

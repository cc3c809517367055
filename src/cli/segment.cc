#include <chrono>
#include <cstdio>

#include "apps/app_model.h"
#include "apps/segmentation.h"
#include "base/strings.h"
#include "cli/verbs.h"
#include "formats/json/json.h"
#include "kernels/isa.h"

namespace downhaul {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

class Segment final : public Verb {
 public:
  std::string_view name() const override { return "segment"; }
  std::string_view summary() const override { return "Cut an object out of a photo"; }
  std::string_view details() const override {
    return "Writes mask.png, overlay.png and cutout.png in the photo's own size.\n"
           "Example:\n"
           "  downhaul segment artifacts/lraspp_xnnpack.pte photo.jpg --out cut";
  }
  void declare(Options& o) override {
    o.positional(&model_, "MODEL", "a .pt2 or .pte file of a segmentation model, or its spec");
    o.positional(&photo_, "PHOTO", "a PNG or JPEG image");
    o.text(&options_.spec, "--spec", "FILE",
           "the model's model_spec.json (default: the one beside it)");
    o.text(&wanted_, "--class", "CLASS",
           "cut out this class, by label or id (default: the most frequent but the background)");
    o.text(&out_, "--out", "DIR", "where to write the pictures (default: the current folder)");
    o.number(&threads_, "--threads", "N", "threads to use; results do not depend on it", 1, 1024);
    o.flag(&json_, "--json", "print JSON");
  }

  Result<int> run() override {
    DH_TRY(lower_isa_by_environment());
    if (model_.empty() || photo_.empty()) return invalid_argument("segment: give MODEL and PHOTO");
    options_.how.threads = static_cast<int>(threads_);
    DH_ASSIGN(AppModel model, AppModel::load(model_, options_));
    DH_ASSIGN(const ImageInput input, find_image_input(model.graph(), model.spec(), model.path()));

    auto begin = Clock::now();
    DH_ASSIGN(const PhotoTensor photo, read_photo(photo_, input));
    const double prepare_ms = milliseconds_since(begin);
    begin = Clock::now();
    DH_ASSIGN(const std::vector<Tensor> outputs, model.run({photo.tensor}));
    const double forward_ms = milliseconds_since(begin);
    begin = Clock::now();
    auto map = best_classes(outputs[0], static_cast<int64_t>(model.labels().size()));
    if (!map.ok()) {
      return std::move(map).status().with_context(cat("'", printable(model_), "'"));
    }
    const std::vector<ClassShare> shares = class_shares(*map, photo.placement);
    std::optional<int64_t> chosen = main_class(shares);
    if (!wanted_.empty()) {
      DH_ASSIGN(chosen, find_class(model, wanted_, map->num_classes));
    }
    // With nothing but background there is nothing to cut out: the pictures say so.
    const Image alpha = chosen.has_value() ? class_alpha(*map, photo.placement, *chosen)
                                           : Image(photo.photo.width, photo.photo.height, 1);
    const double cut_ms = milliseconds_since(begin);
    const std::string folder = out_.empty() ? "" : out_ + "/";
    if (!out_.empty()) DH_TRY(make_directories(out_));
    const std::vector<std::string> files = {folder + "mask.png", folder + "overlay.png",
                                            folder + "cutout.png"};
    DH_TRY(write_png(files[0], hard_mask(alpha)));
    DH_TRY(write_png(files[1], overlay(photo.photo, alpha, chosen.value_or(0))));
    DH_TRY(write_png(files[2], cutout(photo.photo, alpha)));
    if (json_) {
      print_json(model, input, photo.photo, shares, chosen, files, prepare_ms, forward_ms, cut_ms);
    } else {
      print_text(model, input, photo.photo, shares, chosen, files, forward_ms);
    }
    return kExitDone;
  }

 private:
  void print_text(const AppModel& model, const ImageInput& input, const Image& photo,
                  const std::vector<ClassShare>& shares, std::optional<int64_t> chosen,
                  const std::vector<std::string>& files, double forward_ms) const {
    for (const std::string& w : model.warnings()) {
      std::fprintf(stderr, "downhaul: warning: %s\n", w.c_str());
    }
    if (const std::string said = assumption(input); !said.empty())
      std::printf("%s\n", said.c_str());
    std::printf("%s: %d x %d pixels\n", printable(photo_).c_str(), static_cast<int>(photo.width),
                static_cast<int>(photo.height));
    for (const ClassShare& s : shares) {
      std::printf("  %6s %%  %s (%d)\n", fixed(100 * s.share, 1).c_str(),
                  printable(model.label(s.id)).c_str(), static_cast<int>(s.id));
    }
    if (chosen.has_value()) {
      std::printf("Selected class: %s (%d)\n", printable(model.label(*chosen)).c_str(),
                  static_cast<int>(*chosen));
    } else {
      std::printf("Selected class: none, there is only background\n");
    }
    std::printf("forward: %s ms (%s)\n", fixed(forward_ms, 1).c_str(),
                describe(options_.how).c_str());
    for (const std::string& f : files) std::printf("wrote %s\n", printable(f).c_str());
  }

  void print_json(const AppModel& model, const ImageInput& input, const Image& photo,
                  const std::vector<ClassShare>& shares, std::optional<int64_t> chosen,
                  const std::vector<std::string>& files, double prepare_ms, double forward_ms,
                  double cut_ms) const {
    JsonWriter json;
    json.begin_object();
    json.field("model", model.path());
    json.field("photo", photo_);
    json.field("width", photo.width);
    json.field("height", photo.height);
    json.field("preprocessing_assumed", input.assumed);
    json.key("selected");
    if (chosen.has_value()) {
      json.begin_object();
      json.field("id", *chosen);
      json.field("label", model.label(*chosen));
      json.end_object();
    } else {
      json.null();
    }
    json.key("classes").begin_array();
    for (const ClassShare& s : shares) {
      json.begin_object();
      json.field("id", s.id);
      json.field("label", model.label(s.id));
      json.field("pixels", s.pixels);
      json.field("share", s.share);
      json.end_object();
    }
    json.end_array();
    json.field("prepare_ms", prepare_ms);
    json.field("forward_ms", forward_ms);
    json.field("cut_ms", cut_ms);
    json.field("threads", threads_);
    json.key("files").begin_array();
    for (const std::string& f : files) json.value(f);
    json.end_array();
    json.end_object();
    std::printf("%s\n", json.take().c_str());
  }

  std::string model_, photo_, wanted_, out_;
  AppModelOptions options_;
  int64_t threads_ = 1;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_segment() { return std::make_unique<Segment>(); }

}  // namespace downhaul

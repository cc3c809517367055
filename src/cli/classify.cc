#include <cstdio>

#include "apps/app_model.h"
#include "apps/photo_classes.h"
#include "apps/text_tasks.h"
#include "base/strings.h"
#include "cli/verbs.h"
#include "formats/json/json.h"
#include "image/image.h"
#include "image/preprocess.h"
#include "kernels/isa.h"

namespace downhaul {
namespace {

class Classify final : public Verb {
 public:
  std::string_view name() const override { return "classify"; }
  std::string_view summary() const override {
    return "Say what a photo shows, or of which class a text is";
  }
  std::string_view details() const override {
    return "Example:\n  downhaul classify artifacts/mobilenet_v2_xnnpack.pte photo.jpg";
  }
  void declare(Options& o) override {
    o.positional(&model_, "MODEL", "a .pt2 or .pte file of a classifier, a checkpoint or its spec");
    o.positional(&input_, "INPUT", "a PNG or JPEG image, or a text");
    o.text(&text_options_.tokenizer, "--tokenizer", "PATH",
           "for texts (default: the spec's tokenizer, or the model's folder)");
    o.flag(&text_options_.truncate, "--truncate", "cut a text that is too long");
    o.text(&options_.spec, "--spec", "FILE",
           "the model's model_spec.json (default: the one beside it)");
    o.number(&top_, "--top", "K", "show the K most likely classes (default 5)", 1, 1000000);
    o.number(&threads_, "--threads", "N", "threads to use; results do not depend on it", 1, 1024);
    o.flag(&json_, "--json", "print JSON");
  }

  Result<int> run() override {
    DH_TRY(lower_isa_by_environment());
    if (model_.empty() || input_.empty())
      return invalid_argument("classify: give MODEL and PHOTO or TEXT");
    options_.how.threads = static_cast<int>(threads_);
    DH_ASSIGN(AppModel model, AppModel::load(model_, options_));
    if (TextModel::takes_text(model.graph())) {
      DH_ASSIGN(TextModel of_text, TextModel::make(std::move(model), text_options_));
      DH_ASSIGN(const RankedClasses ranked, classify_text(of_text, input_, top_));
      print(of_text.model(), ranked.classes, ranked.forward_ms, {}, "text");
      return kExitDone;
    }
    DH_ASSIGN(const ImageInput input, find_image_input(model.graph(), model.spec(), model.path()));
    DH_ASSIGN(const PhotoTensor photo, read_photo(input_, input));
    DH_ASSIGN(const PhotoClasses found, classify_photo(model, photo, top_));
    print(model, found.classes, found.forward_ms, input, "photo");
    return kExitDone;
  }

 private:
  void print(const AppModel& model, const std::vector<Ranked>& ranked, double ms,
             const std::optional<ImageInput>& input, std::string_view kind) const {
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("model", model.path());
      json.field(kind, input_);
      if (input) json.field("preprocessing_assumed", input->assumed);
      json.field("forward_ms", ms);
      json.field("threads", threads_);
      json.key("classes").begin_array();
      write_json(ranked, "id", "label", [&](int64_t id) { return model.label(id); }, json);
      json.end_array();
      json.end_object();
      std::printf("%s\n", json.take().c_str());
      return;
    }
    for (const std::string& w : model.warnings()) {
      std::fprintf(stderr, "downhaul: warning: %s\n", w.c_str());
    }
    if (const std::string said = input ? assumption(*input) : std::string(); !said.empty())
      std::printf("%s\n", said.c_str());
    for (const Ranked& r : ranked) {
      std::printf("%6s %%  %s\n", fixed(100 * r.probability, 2).c_str(),
                  printable(model.label(r.index)).c_str());
    }
    std::printf("forward: %s ms (%s)\n", fixed(ms, 1).c_str(), describe(options_.how).c_str());
  }

  std::string model_, input_;
  AppModelOptions options_;
  TextModelOptions text_options_;
  int64_t top_ = 5;
  int64_t threads_ = 1;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_classify() { return std::make_unique<Classify>(); }

}  // namespace downhaul

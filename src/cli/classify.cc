#include <chrono>
#include <cstdio>

#include "apps/app_model.h"
#include "apps/ranking.h"
#include "apps/text_model.h"
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
    o.positional(&model_, "MODEL", "a .pt2 or .pte file of a classifier, or its spec");
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
      DH_ASSIGN(const TextOutput output, of_text.run(text::replace_invalid_utf8(input_)));
      return print(of_text.model(), output.outputs, output.forward_ms, {}, "text");
    }
    DH_ASSIGN(const ImageInput input, find_image_input(model.graph(), model.spec(), model.path()));
    DH_ASSIGN(const PhotoTensor photo, read_photo(input_, input));
    const auto begin = std::chrono::steady_clock::now();
    DH_ASSIGN(const std::vector<Tensor> outputs, model.run({photo.tensor}));
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    return print(model, outputs, ms, input, "photo");
  }

 private:
  Result<int> print(const AppModel& model, const std::vector<Tensor>& outputs, double ms,
                    const std::optional<ImageInput>& input, std::string_view kind) const {
    if (outputs.empty()) return invalid_argument(cat("'", printable(model_), "': no output"));
    const Tensor& scores = outputs[0];
    if (scores.dtype() != DType::kF32 || scores.rank() != 2 || scores.size(0) != 1) {
      return invalid_argument(cat("'", printable(model_), "': the output is ", describe(scores),
                                  ", expected class scores f32[1,classes]"));
    }
    const auto ranked = top_k({scores.data<float>(), static_cast<size_t>(scores.size(1))}, top_);
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("model", model.path());
      json.field(kind, input_);
      if (input) json.field("preprocessing_assumed", input->assumed);
      json.field("forward_ms", ms);
      json.field("threads", threads_);
      json.key("classes").begin_array();
      for (const Ranked& r : ranked) {
        json.begin_object();
        json.field("id", r.index);
        json.field("label", model.label(r.index));
        json.field("score", r.score);
        json.field("probability", r.probability);
        json.end_object();
      }
      json.end_array();
      json.end_object();
      std::printf("%s\n", json.take().c_str());
      return kExitDone;
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
    return kExitDone;
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

#include <algorithm>
#include <cstdio>

#include "apps/ranking.h"
#include "cli/text_verb.h"
#include "formats/json/json.h"

namespace downhaul {
namespace {

class Choose final : public TextVerb {
 public:
  std::string_view name() const override { return "choose"; }
  std::string_view summary() const override { return "Choose the text that goes on best"; }
  std::string_view details() const override {
    return "Example:\n  downhaul choose model.pte \"The sky is\" blue. square. tasty. loud.";
  }
  void declare(Options& o) override {
    declare_model(o);
    o.positional(&text_, "TEXT", "what each choice follows");
    o.positionals(&choices_, "CHOICE", "as many as the model compares", false);
    declare_common(o);
  }

  Result<int> run() override {
    if (text_.empty() || choices_.empty()) {
      return invalid_argument("choose: give MODEL, TEXT and CHOICES");
    }
    DH_ASSIGN(TextModel model, load());
    const auto count = static_cast<int64_t>(choices_.size());
    if (model.num_choices() != count) {
      return invalid_argument(
          cat("the model compares ", model.num_choices(), " choices, ", count, " are given"));
    }
    const std::string text = text::replace_invalid_utf8(text_);
    std::vector<text::Encoding> encodings;
    size_t length = 0;
    for (const std::string& choice : choices_) {
      const std::string second = text::replace_invalid_utf8(choice);
      const std::string_view view = second;
      DH_ASSIGN(auto encoding, model.encode(text, &view));
      length = std::max(length, encoding.size());
      encodings.push_back(std::move(encoding));
    }
    // Without a fixed length: as long as the longest.
    for (size_t i = 0; i < encodings.size(); ++i) {
      if (encodings[i].size() == length) continue;
      const std::string second = text::replace_invalid_utf8(choices_[i]);
      text::EncodeOptions options;
      options.truncation = model.tokenizer().truncation_to(
          static_cast<uint32_t>(model.max_tokens()), text::TruncationStrategy::kOnlySecond);
      options.padding = model.tokenizer().padding_to(static_cast<uint32_t>(length));
      DH_ASSIGN(encodings[i], model.tokenizer().encode(text, second, options));
    }
    DH_ASSIGN(const std::vector<Tensor> outputs, model.run(encodings));
    DH_ASSIGN(const Tensor* logits, scores(outputs, 0, {1, count}));
    const auto ranked = top_k(row_of(*logits, 0), count);
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("model", model.model().path());
      json.key("choices").begin_array();
      for (const Ranked& r : ranked) {
        json.begin_object();
        json.field("index", r.index);
        json.field("text", choices_[static_cast<size_t>(r.index)]);
        json.field("score", r.score);
        json.field("probability", r.probability);
        json.end_object();
      }
      json.end_array();
      json.end_object();
      std::printf("%s\n", json.take().c_str());
      return kExitDone;
    }
    for (const Ranked& r : ranked) {
      std::printf("%6s %%  %s\n", percent(r.probability).c_str(),
                  printable(choices_[static_cast<size_t>(r.index)]).c_str());
    }
    return kExitDone;
  }

 private:
  std::string text_;
  std::vector<std::string> choices_;
};

}  // namespace

std::unique_ptr<Verb> make_choose() { return std::make_unique<Choose>(); }

}  // namespace downhaul

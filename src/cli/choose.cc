#include <cstdio>

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
    DH_ASSIGN(const RankedClasses ranked, choose_text(model, text_, choices_));
    const auto choice = [&](int64_t i) { return choices_[static_cast<size_t>(i)]; };
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("model", model.model().path());
      json.key("choices").begin_array();
      write_json(ranked.classes, "index", "text", choice, json);
      json.end_array();
      json.end_object();
      std::printf("%s\n", json.take().c_str());
      return kExitDone;
    }
    for (const Ranked& r : ranked.classes) {
      std::printf("%6s %%  %s\n", percent(r.probability).c_str(),
                  printable(choice(r.index)).c_str());
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

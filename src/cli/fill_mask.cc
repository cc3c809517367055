#include <cstdio>

#include "cli/text_verb.h"
#include "formats/json/json.h"

namespace downhaul {
namespace {

class FillMask final : public TextVerb {
 public:
  std::string_view name() const override { return "fill-mask"; }
  std::string_view summary() const override { return "Fill in the masked words of a sentence"; }
  std::string_view details() const override {
    return "Example:\n  downhaul fill-mask samples/distilbert/model.pt2 "
           "\"And Noah builded an [MASK] unto the LORD;\"";
  }
  void declare(Options& o) override {
    declare_model(o);
    o.positional(&text_, "TEXT", "a text with the tokenizer's mask, such as [MASK], in it");
    o.number(&top_, "--top", "K", "show the K likeliest words of each place", 1, 1000000);
    declare_common(o);
  }

  Result<int> run() override {
    if (text_.empty()) return invalid_argument("fill-mask: give MODEL and TEXT");
    DH_ASSIGN(TextModel model, load());
    DH_ASSIGN(const FilledMasks filled, fill_masks(model, text_, top_));
    if (json_) {
      print_json(model, filled);
      return kExitDone;
    }
    const std::string mask = printable(model.tokenizer().piece(*model.tokenizer().mask_id()));
    const bool one = filled.places.size() == 1;
    for (size_t m = 0; m < filled.places.size(); ++m) {
      if (!one) std::printf("%s %d:\n", mask.c_str(), static_cast<int>(m + 1));
      for (const MaskedWord& w : filled.places[m].words) {
        std::printf("%6s %%  %-16s", percent(w.rank.probability).c_str(),
                    printable(w.word).c_str());
        if (one) std::printf("  %s", printable(w.sentence).c_str());
        std::printf("\n");
      }
    }
    print_time(filled);
    return kExitDone;
  }

 private:
  static void print_json(const TextModel& model, const FilledMasks& filled) {
    JsonWriter json;
    json.begin_object();
    json.field("model", model.model().path());
    json.field("text", filled.text);
    json.field("truncated", filled.truncated);
    json.field("forward_ms", filled.forward_ms);
    json.key("masks").begin_array();
    for (const MaskedPlace& place : filled.places) {
      json.begin_object();
      json.field("position", static_cast<int64_t>(place.position));
      json.key("words").begin_array();
      for (const MaskedWord& w : place.words) {
        json.begin_object();
        json.field("id", w.rank.index);
        json.field("word", w.word);
        json.field("score", w.rank.score);
        json.field("probability", w.rank.probability);
        json.field("sentence", w.sentence);
        json.end_object();
      }
      json.end_array();
      json.end_object();
    }
    json.end_array();
    json.end_object();
    std::printf("%s\n", json.take().c_str());
  }

  std::string text_;
  int64_t top_ = 5;
};

}  // namespace

std::unique_ptr<Verb> make_fill_mask() { return std::make_unique<FillMask>(); }

}  // namespace downhaul

#include <algorithm>
#include <cstdio>

#include "apps/ranking.h"
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
    const text::Tokenizer& tokenizer = model.tokenizer();
    if (!tokenizer.mask_id()) return invalid_argument("the tokenizer has no mask token");
    const std::string mask(tokenizer.piece(*tokenizer.mask_id()));
    const std::string text = text::replace_invalid_utf8(text_);
    DH_ASSIGN(const TextOutput output, model.run(text));
    std::vector<size_t> places;
    for (size_t i = 0; i < output.encoding.size(); ++i) {
      if (output.encoding.ids[i] == *tokenizer.mask_id()) places.push_back(i);
    }
    if (places.empty()) {
      return invalid_argument(cat("the text has no ", printable(mask),
                                  output.encoding.truncated ? " before the cut" : ""));
    }
    // All places' scores, or those of the one place that the program looks for itself.
    const bool one_row = !output.outputs.empty() && output.outputs[0].rank() == 2;
    if (one_row && places.size() > 1) {
      return invalid_argument(
          cat("the model fills in one ", printable(mask), ", the text has ", places.size()));
    }
    const auto tokens = static_cast<int64_t>(output.encoding.size());
    DH_ASSIGN(const Tensor* logits,
              scores(output.outputs, 0, one_row ? Sizes{1, -1} : Sizes{1, tokens, -1}));
    std::vector<std::vector<Ranked>> ranked;
    for (const size_t place : places) {
      ranked.push_back(top_k(row_of(*logits, one_row ? 0 : static_cast<int64_t>(place)), top_));
    }
    if (json_) {
      print_json(model, text, output, places, ranked);
      return kExitDone;
    }
    for (size_t m = 0; m < places.size(); ++m) {
      if (places.size() > 1) {
        std::printf("%s %d:\n", printable(mask).c_str(), static_cast<int>(m + 1));
      }
      for (const Ranked& r : ranked[m]) {
        std::printf("%6s %%  %-16s", percent(r.probability).c_str(),
                    printable(word(tokenizer, r.index)).c_str());
        if (places.size() == 1)
          std::printf("  %s",
                      printable(filled(text, output, places, m, word(tokenizer, r.index))).c_str());
        std::printf("\n");
      }
    }
    print_time(output);
    return kExitDone;
  }

 private:
  static std::string word(const text::Tokenizer& tokenizer, int64_t id) {
    const uint32_t one[] = {static_cast<uint32_t>(id)};
    const std::string decoded = tokenizer.decode(one, false);
    const std::string_view trimmed = trim(decoded);
    return std::string(trimmed);
  }
  /// The text with one mask replaced.
  static std::string filled(const std::string& text, const TextOutput& output,
                            const std::vector<size_t>& places, size_t which,
                            const std::string& word) {
    const text::Span at = output.encoding.byte_offsets[places[which]];
    return text.substr(0, at.begin) + word + text.substr(at.end);
  }

  void print_json(const TextModel& model, const std::string& text, const TextOutput& output,
                  const std::vector<size_t>& places,
                  const std::vector<std::vector<Ranked>>& ranked) const {
    JsonWriter json;
    json.begin_object();
    json.field("model", model.model().path());
    json.field("text", text);
    json.field("truncated", output.encoding.truncated);
    json.field("forward_ms", output.forward_ms);
    json.key("masks").begin_array();
    for (size_t m = 0; m < places.size(); ++m) {
      json.begin_object();
      json.field("position", static_cast<int64_t>(places[m]));
      json.key("words").begin_array();
      for (const Ranked& r : ranked[m]) {
        const std::string text_of = word(model.tokenizer(), r.index);
        json.begin_object();
        json.field("id", r.index);
        json.field("word", text_of);
        json.field("score", r.score);
        json.field("probability", r.probability);
        json.field("sentence", filled(text, output, places, m, text_of));
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

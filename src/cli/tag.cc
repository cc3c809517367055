#include <cstdio>

#include "apps/ranking.h"
#include "apps/text_answers.h"
#include "cli/text_verb.h"
#include "formats/json/json.h"

namespace downhaul {
namespace {

class Tag final : public TextVerb {
 public:
  std::string_view name() const override { return "tag"; }
  std::string_view summary() const override { return "Name the parts of a text"; }
  std::string_view details() const override {
    return "Neighbouring tokens of one label become one part; label O is left out.\n"
           "Example:\n  downhaul tag ner.pte \"Ann Lee lives in Paris.\"";
  }
  void declare(Options& o) override {
    declare_model(o);
    o.positional(&text_, "TEXT", "a text");
    declare_common(o);
  }

  Result<int> run() override {
    if (text_.empty()) return invalid_argument("tag: give MODEL and TEXT");
    DH_ASSIGN(TextModel model, load());
    const std::string text = text::replace_invalid_utf8(text_);
    DH_ASSIGN(const TextOutput output, model.run(text));
    const text::Encoding& e = output.encoding;
    const auto tokens = static_cast<int64_t>(e.size());
    DH_ASSIGN(const Tensor* logits, scores(output.outputs, 0, {1, tokens, -1}));
    std::vector<std::string> labels;
    std::vector<double> probabilities;
    for (int64_t i = 0; i < tokens; ++i) {
      const auto best = top_k(row_of(*logits, i), 1);
      labels.push_back(best.empty() ? "O" : model.model().label(best[0].index));
      probabilities.push_back(best.empty() ? 0 : best[0].probability);
    }
    const std::vector<TaggedSpan> spans = merge_tags(labels, probabilities, e.special_mask);
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("model", model.model().path());
      json.field("text", text);
      json.field("truncated", e.truncated);
      json.field("forward_ms", output.forward_ms);
      json.key("parts").begin_array();
      for (const TaggedSpan& s : spans) {
        json.begin_object();
        json.field("label", s.label);
        json.field("probability", s.probability);
        json.field("text", part(text, e, s));
        json.field("start", e.offsets[s.first].begin);
        json.field("end", e.offsets[s.last].end);
        json.end_object();
      }
      json.end_array();
      json.end_object();
      std::printf("%s\n", json.take().c_str());
      return kExitDone;
    }
    for (const TaggedSpan& s : spans) {
      std::printf("%6s %%  %-12s %s\n", percent(s.probability).c_str(), printable(s.label).c_str(),
                  printable(part(text, e, s)).c_str());
    }
    if (spans.empty()) std::printf("no part has a label\n");
    print_time(output);
    return kExitDone;
  }

 private:
  static std::string part(const std::string& text, const text::Encoding& e, const TaggedSpan& s) {
    const uint32_t begin = e.byte_offsets[s.first].begin;
    return text.substr(begin, e.byte_offsets[s.last].end - begin);
  }
  std::string text_;
};

}  // namespace

std::unique_ptr<Verb> make_tag() { return std::make_unique<Tag>(); }

}  // namespace downhaul

#include <cstdio>

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
    DH_ASSIGN(const TaggedText tagged, tag_text(model, text_));
    if (json_) {
      JsonWriter json;
      json.begin_object();
      json.field("model", model.model().path());
      json.field("text", tagged.text);
      json.field("truncated", tagged.truncated);
      json.field("forward_ms", tagged.forward_ms);
      json.key("parts").begin_array();
      for (const TaggedPart& p : tagged.parts) {
        json.begin_object();
        json.field("label", p.label);
        json.field("probability", p.probability);
        json.field("text", p.text);
        json.field("start", p.start);
        json.field("end", p.end);
        json.end_object();
      }
      json.end_array();
      json.end_object();
      std::printf("%s\n", json.take().c_str());
      return kExitDone;
    }
    for (const TaggedPart& p : tagged.parts) {
      std::printf("%6s %%  %-12s %s\n", percent(p.probability).c_str(), printable(p.label).c_str(),
                  printable(p.text).c_str());
    }
    if (tagged.parts.empty()) std::printf("no part has a label\n");
    print_time(tagged);
    return kExitDone;
  }

 private:
  std::string text_;
};

}  // namespace

std::unique_ptr<Verb> make_tag() { return std::make_unique<Tag>(); }

}  // namespace downhaul

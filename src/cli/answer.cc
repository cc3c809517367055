#include <cstdio>

#include "cli/text_verb.h"
#include "formats/json/json.h"

namespace downhaul {
namespace {

class Answer final : public TextVerb {
 public:
  std::string_view name() const override { return "answer"; }
  std::string_view summary() const override { return "Answer a question from a text"; }
  std::string_view details() const override {
    return "The answer is a part of the text. A text that does not fit is read through "
           "overlapping\n"
           "windows; --truncate cuts it instead. Example:\n"
           "  downhaul answer model.pte \"Who wrote it?\" \"The letter was written by Ann.\"";
  }
  void declare(Options& o) override {
    declare_model(o);
    o.positional(&question_, "QUESTION", "what is asked");
    o.positional(&context_, "CONTEXT", "the text that holds the answer");
    o.number(&how_.top, "--top", "K", "show the K likeliest answers", 1, 1000);
    o.number(&how_.max_tokens, "--max-tokens", "N", "longest answer", 1, 100000);
    o.number(&how_.overlap, "--overlap", "N",
             "tokens that windows over a text that does not fit share (default 128)", 0, 100000);
    o.flag(&no_answer_, "--no-answer", "say so when no answer is likelier than each answer");
    declare_common(o);
  }

  Result<int> run() override {
    if (question_.empty() || context_.empty()) {
      return invalid_argument("answer: give MODEL, QUESTION and CONTEXT");
    }
    DH_ASSIGN(TextModel model, load());
    DH_ASSIGN(const QuestionAnswers found, answer_question(model, question_, context_, how_));
    const bool none =
        found.answers.empty() || (no_answer_ && found.no_answer > found.answers[0].probability);
    if (json_) {
      print_json(model, found, none);
      return kExitDone;
    }
    if (none) std::printf("%6s %%  (no answer)\n", percent(found.no_answer).c_str());
    for (const ContextAnswer& a : found.answers) {
      std::printf("%6s %%  %s\n", percent(a.probability).c_str(), printable(a.text).c_str());
    }
    if (found.windows > 1) {
      std::printf("read through %lld windows\n", static_cast<long long>(found.windows));
    }
    print_time(found);
    return kExitDone;
  }

 private:
  void print_json(const TextModel& model, const QuestionAnswers& found, bool none) const {
    JsonWriter json;
    json.begin_object();
    json.field("model", model.model().path());
    json.field("question", question_);
    json.field("truncated", found.truncated);
    json.field("windows", found.windows);
    json.field("forward_ms", found.forward_ms);
    json.field("no_answer", none);
    json.field("no_answer_probability", found.no_answer);
    json.key("answers").begin_array();
    for (const ContextAnswer& a : found.answers) {
      json.begin_object();
      json.field("text", a.text);
      json.field("start", a.start);
      json.field("end", a.end);
      json.field("probability", a.probability);
      json.end_object();
    }
    json.end_array();
    json.end_object();
    std::printf("%s\n", json.take().c_str());
  }

  std::string question_, context_;
  AnswerOptions how_;
  bool no_answer_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_answer() { return std::make_unique<Answer>(); }

}  // namespace downhaul

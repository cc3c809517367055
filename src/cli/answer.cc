#include <cstdio>

#include "apps/text_answers.h"
#include "cli/text_verb.h"
#include "formats/json/json.h"

namespace downhaul {
namespace {

class Answer final : public TextVerb {
 public:
  std::string_view name() const override { return "answer"; }
  std::string_view summary() const override { return "Answer a question from a text"; }
  std::string_view details() const override {
    return "The answer is a part of the text. Example:\n"
           "  downhaul answer model.pte \"Who wrote it?\" \"The letter was written by Ann.\"";
  }
  void declare(Options& o) override {
    declare_model(o);
    o.positional(&question_, "QUESTION", "what is asked");
    o.positional(&context_, "CONTEXT", "the text that holds the answer");
    o.number(&top_, "--top", "K", "show the K likeliest answers", 1, 1000);
    o.number(&max_tokens_, "--max-tokens", "N", "longest answer", 1, 100000);
    o.flag(&no_answer_, "--no-answer", "say so when no answer is likelier than each answer");
    declare_common(o);
  }

  Result<int> run() override {
    if (question_.empty() || context_.empty()) {
      return invalid_argument("answer: give MODEL, QUESTION and CONTEXT");
    }
    DH_ASSIGN(TextModel model, load());
    const std::string question = text::replace_invalid_utf8(question_);
    const std::string context = text::replace_invalid_utf8(context_);
    const std::string_view second = context;
    DH_ASSIGN(const TextOutput output, model.run(question, &second));
    const auto tokens = static_cast<int64_t>(output.encoding.size());
    DH_ASSIGN(const Tensor* start, scores(output.outputs, 0, {1, tokens}));
    DH_ASSIGN(const Tensor* end, scores(output.outputs, 1, {1, tokens}));
    std::vector<uint8_t> allowed;
    for (const int8_t s : output.encoding.sequence) allowed.push_back(s == 1 ? 1 : 0);
    const Answers answers =
        find_answers(row_of(*start, 0), row_of(*end, 0), allowed, static_cast<size_t>(max_tokens_),
                     static_cast<size_t>(top_));
    const bool none =
        answers.spans.empty() || (no_answer_ && answers.no_answer > answers.spans[0].probability);
    if (json_) {
      print_json(model, context, output, answers, none);
      return kExitDone;
    }
    if (none) std::printf("%6s %%  (no answer)\n", percent(answers.no_answer).c_str());
    for (const AnswerSpan& span : answers.spans) {
      const text::Span bytes = range(output.encoding.byte_offsets, span);
      std::printf("%6s %%  %s\n", percent(span.probability).c_str(),
                  printable(context.substr(bytes.begin, bytes.end - bytes.begin)).c_str());
    }
    print_time(output);
    return kExitDone;
  }

 private:
  static text::Span range(const std::vector<text::Span>& offsets, const AnswerSpan& span) {
    return {offsets[span.first].begin, offsets[span.last].end};
  }
  void print_json(const TextModel& model, const std::string& context, const TextOutput& output,
                  const Answers& answers, bool none) const {
    JsonWriter json;
    json.begin_object();
    json.field("model", model.model().path());
    json.field("question", question_);
    json.field("truncated", output.encoding.truncated);
    json.field("forward_ms", output.forward_ms);
    json.field("no_answer", none);
    json.field("no_answer_probability", answers.no_answer);
    json.key("answers").begin_array();
    for (const AnswerSpan& span : answers.spans) {
      const text::Span bytes = range(output.encoding.byte_offsets, span);
      const text::Span chars = range(output.encoding.offsets, span);
      json.begin_object();
      json.field("text", context.substr(bytes.begin, bytes.end - bytes.begin));
      json.field("start", chars.begin);
      json.field("end", chars.end);
      json.field("probability", span.probability);
      json.end_object();
    }
    json.end_array();
    json.end_object();
    std::printf("%s\n", json.take().c_str());
  }

  std::string question_, context_;
  int64_t top_ = 3;
  int64_t max_tokens_ = 15;
  bool no_answer_ = false;
};

}  // namespace

std::unique_ptr<Verb> make_answer() { return std::make_unique<Answer>(); }

}  // namespace downhaul

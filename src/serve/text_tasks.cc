#include "serve/text_tasks.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "apps/text_answers.h"
#include "apps/text_tasks.h"
#include "base/strings.h"

namespace downhaul {
namespace {

/// Longest text of a request, in bytes: some minutes of reading, some seconds in the model.
constexpr size_t kMaxText = 64 * 1024;
/// Most texts that are held against each other, or are chosen among.
constexpr size_t kMaxLines = 64;
/// Longest time that one request may go on with a text.
constexpr double kMaxSeconds = 20;

Result<std::string> required(const TaskInput& request, std::string_view name) {
  std::string text = request.text(name);
  if (trim(text).empty()) return invalid_argument(cat(name, ": expected a text"));
  if (text.size() > kMaxText) {
    return invalid_argument(
        cat(name, ": expected at most ", kMaxText, " bytes, found ", text.size()));
  }
  return text;
}

/// The lines of a field that are not blank.
Result<std::vector<std::string>> lines(const TaskInput& request, std::string_view name,
                                       size_t least) {
  std::vector<std::string> out;
  const std::string text = request.text(name);
  if (text.size() <= kMaxText) {
    for (const std::string_view line : split(text, '\n')) {
      if (!trim(line).empty()) out.emplace_back(trim(line));
    }
  }
  if (out.size() < least || out.size() > kMaxLines) {
    return invalid_argument(cat(name, ": expected ", least, " to ", kMaxLines,
                                " texts, a line each, of ", kMaxText, " bytes at most"));
  }
  return out;
}

TaskOutput output_of(const TextRun& run) {
  TaskOutput out;
  out.forward_ms = run.forward_ms;
  if (run.truncated) out.note = "the text was cut to fit";
  return out;
}

class TextTask : public Task {
 public:
  explicit TextTask(TextModel model) : model_(std::move(model)) {}

 protected:
  /// Classes with their labels.
  TaskOutput ranked(const RankedClasses& found) const {
    TaskOutput out = output_of(found);
    for (const Ranked& r : found.classes) {
      out.items.push_back({model_.model().label(r.index), r.probability});
    }
    return out;
  }
  TextModel model_;
};

class FillMaskTask final : public TextTask {
 public:
  using TextTask::TextTask;
  std::string_view name() const override { return "fill-mask"; }
  std::string_view summary() const override { return "Fill in the masked words of a sentence"; }
  std::vector<TaskField> fields() const override {
    const auto mask = model_.tokenizer().mask_id();
    return {{"text", TaskField::Kind::kText,
             mask ? cat("Sentence with ", model_.tokenizer().piece(*mask)) : "Sentence", ""},
            {"top", TaskField::Kind::kNumber, "Words", "5"}};
  }
  Result<TaskOutput> run(const TaskInput& request) override {
    DH_ASSIGN(const int64_t top, request.number("top", 5, 1, 100));
    DH_ASSIGN(const std::string text, required(request, "text"));
    DH_ASSIGN(const FilledMasks found, fill_masks(model_, text, top));
    TaskOutput out = output_of(found);
    for (size_t i = 0; i < found.places.size(); ++i) {
      for (const MaskedWord& w : found.places[i].words) {
        const std::string place = found.places.size() > 1 ? cat(i + 1, ": ") : std::string();
        out.items.push_back({cat(place, w.word), w.rank.probability});
      }
    }
    if (found.places.size() == 1) out.text = found.places[0].words[0].sentence;
    return out;
  }
};

class AnswerTask final : public TextTask {
 public:
  using TextTask::TextTask;
  std::string_view name() const override { return "answer"; }
  std::string_view summary() const override { return "Answer a question from a text"; }
  std::vector<TaskField> fields() const override {
    return {{"question", TaskField::Kind::kText, "Question", ""},
            {"context", TaskField::Kind::kLongText, "Text that holds the answer", ""},
            {"top", TaskField::Kind::kNumber, "Answers", "3"}};
  }
  Result<TaskOutput> run(const TaskInput& request) override {
    AnswerOptions options;
    DH_ASSIGN(options.top, request.number("top", 3, 1, 100));
    DH_ASSIGN(const std::string question, required(request, "question"));
    DH_ASSIGN(const std::string context, required(request, "context"));
    DH_ASSIGN(const QuestionAnswers found, answer_question(model_, question, context, options));
    TaskOutput out = output_of(found);
    for (const ContextAnswer& a : found.answers) out.items.push_back({a.text, a.probability});
    out.items.push_back({"(no answer)", found.no_answer});
    if (!found.answers.empty()) out.text = found.answers[0].text;
    if (found.windows > 1) out.note = cat("read through ", found.windows, " windows");
    return out;
  }
};

class TagTask final : public TextTask {
 public:
  using TextTask::TextTask;
  std::string_view name() const override { return "tag"; }
  std::string_view summary() const override { return "Name the parts of a text"; }
  std::vector<TaskField> fields() const override {
    return {{"text", TaskField::Kind::kLongText, "Text", ""}};
  }
  Result<TaskOutput> run(const TaskInput& request) override {
    DH_ASSIGN(const std::string text, required(request, "text"));
    DH_ASSIGN(const TaggedText found, tag_text(model_, text));
    TaskOutput out = output_of(found);
    for (const TaggedPart& p : found.parts) {
      out.items.push_back({cat(p.text, " · ", p.label), p.probability});
    }
    if (found.parts.empty()) out.text = "no part has a label";
    return out;
  }
};

class ClassifyTextTask final : public TextTask {
 public:
  using TextTask::TextTask;
  std::string_view name() const override { return "classify"; }
  std::string_view summary() const override { return "Say of which class a text is"; }
  std::vector<TaskField> fields() const override {
    return {{"text", TaskField::Kind::kLongText, "Text", ""},
            {"top", TaskField::Kind::kNumber, "Answers", "5"}};
  }
  Result<TaskOutput> run(const TaskInput& request) override {
    DH_ASSIGN(const int64_t top, request.number("top", 5, 1, 1000));
    DH_ASSIGN(const std::string text, required(request, "text"));
    DH_ASSIGN(const RankedClasses found, classify_text(model_, text, top));
    return ranked(found);
  }
};

class ChooseTask final : public TextTask {
 public:
  using TextTask::TextTask;
  std::string_view name() const override { return "choose"; }
  std::string_view summary() const override { return "Choose the text that goes on best"; }
  std::vector<TaskField> fields() const override {
    return {{"text", TaskField::Kind::kText, "Text", ""},
            {"choices", TaskField::Kind::kLongText,
             cat("Choices, a line each: ", model_.num_choices()), ""}};
  }
  Result<TaskOutput> run(const TaskInput& request) override {
    DH_ASSIGN(const std::string text, required(request, "text"));
    DH_ASSIGN(const std::vector<std::string> choices, lines(request, "choices", 1));
    DH_ASSIGN(const RankedClasses found, choose_text(model_, text, choices));
    TaskOutput out = output_of(found);
    for (const Ranked& r : found.classes) {
      out.items.push_back({choices[static_cast<size_t>(r.index)], r.probability});
    }
    return out;
  }
};

class SimilarityTask final : public TextTask {
 public:
  using TextTask::TextTask;
  std::string_view name() const override { return "similarity"; }
  std::string_view summary() const override { return "Say how alike texts are to the first"; }
  std::vector<TaskField> fields() const override {
    return {{"texts", TaskField::Kind::kLongText, "Texts, a line each", ""}};
  }
  Result<TaskOutput> run(const TaskInput& request) override {
    DH_ASSIGN(const std::vector<std::string> texts, lines(request, "texts", 2));
    DH_ASSIGN(const TextEmbeddings found, embed_texts(model_, texts, Pooling::kMean, false));
    TaskOutput out = output_of(found);
    out.measure = "cosine";
    for (size_t i = 1; i < texts.size(); ++i) {
      out.items.push_back({texts[i], cosine(found.vectors[0], found.vectors[i])});
    }
    std::stable_sort(out.items.begin(), out.items.end(), [](const TaskItem& a, const TaskItem& b) {
      return a.probability > b.probability;
    });
    return out;
  }
};

class GenerateTask final : public Task {
 public:
  explicit GenerateTask(std::unique_ptr<TextGenerator> generator)
      : generator_(std::move(generator)) {}
  std::string_view name() const override { return "generate"; }
  std::string_view summary() const override { return "Go on with a text"; }
  std::vector<TaskField> fields() const override {
    return {{"text", TaskField::Kind::kLongText, "Text to go on from", ""},
            {"max_tokens", TaskField::Kind::kNumber, "Tokens to add at most", "40"},
            {"temperature", TaskField::Kind::kReal, "Temperature (0: always the likeliest)", "0"},
            {"top_k", TaskField::Kind::kNumber, "Draw among the likeliest (0: all)", "0"},
            {"top_p", TaskField::Kind::kReal, "Draw among this probability", "1"},
            {"seed", TaskField::Kind::kNumber, "Seed of the draws", "0"}};
  }
  Result<TaskOutput> run(const TaskInput& request) override {
    DH_ASSIGN(const std::string text, required(request, "text"));
    GenerateOptions how;
    DH_ASSIGN(how.max_tokens, request.number("max_tokens", 40, 1, 1000));
    DH_ASSIGN(how.sampling.temperature, request.real("temperature", 0, 0, 100));
    DH_ASSIGN(how.sampling.top_k, request.number("top_k", 0, 0, 1000000));
    DH_ASSIGN(how.sampling.top_p, request.real("top_p", 1, 0, 1));
    DH_ASSIGN(const int64_t seed, request.number("seed", 0, 0, INT64_MAX));
    how.sampling.seed = static_cast<uint64_t>(seed);
    how.max_seconds = kMaxSeconds;
    DH_ASSIGN(std::vector<int64_t> prompt, generator_->encode(text::replace_invalid_utf8(text)));
    DH_ASSIGN(const GeneratedText made, generator_->generate(std::move(prompt), how));
    TaskOutput out;
    out.text = text + made.text;
    out.forward_ms = 1e3 * (made.prefill_seconds + made.decode_seconds);
    out.note = cat(made.tokens.size(), " tokens added, ", fixed(made.tokens_per_second, 1),
                   " a second; ended by ", made.ended_by);
    return out;
  }

 private:
  std::unique_ptr<TextGenerator> generator_;
};

/// The task that outputs of these types belong to, "" for none.
std::string task_of_outputs(const TextModel& model) {
  const Graph& graph = model.model().graph();
  const Value& first = *graph.outputs()[0].value;
  const text::Tokenizer& tokenizer = model.tokenizer();
  const auto width = first.shape().empty() ? std::nullopt : first.shape().back().maybe_value();
  const bool words = width && *width >= static_cast<int64_t>(tokenizer.size());
  const auto labels = static_cast<int64_t>(model.model().labels().size());
  if (model.num_choices() > 1) return "multiple-choice";
  if (words && tokenizer.mask_id()) return "fill-mask";
  if (graph.outputs().size() == 2 && first.rank() == 2) return "question-answering";
  if (first.rank() == 3)
    return labels > 0 && width == labels ? "token-classification" : "embedding";
  if (first.rank() == 2) return labels > 0 && width != labels ? "embedding" : "classification";
  return "";
}

template <typename T>
std::unique_ptr<Task> make(TextModel model) {
  return std::make_unique<T>(std::move(model));
}

struct Row {
  std::string_view task;  ///< as in a model_spec.json
  std::unique_ptr<Task> (*make)(TextModel model);
};
constexpr Row kTasks[] = {
    {"fill-mask", make<FillMaskTask>},       {"question-answering", make<AnswerTask>},
    {"token-classification", make<TagTask>}, {"classification", make<ClassifyTextTask>},
    {"multiple-choice", make<ChooseTask>},   {"embedding", make<SimilarityTask>}};

}  // namespace

Result<std::unique_ptr<Task>> make_text_task(TextModel model) {
  const AppModel& app = model.model();
  std::string task = app.task();
  const auto known = [&] {
    return std::find_if(std::begin(kTasks), std::end(kTasks),
                        [&](const Row& row) { return row.task == task; });
  };
  if (known() == std::end(kTasks)) task = task_of_outputs(model);
  const auto row = known();
  if (row == std::end(kTasks)) {
    return unsupported(cat("'", printable(app.path()), "': no task has the outputs of this model: ",
                           app.graph().outputs()[0].value->type().str()));
  }
  return row->make(std::move(model));
}

std::unique_ptr<Task> make_generate_task(std::unique_ptr<TextGenerator> generator) {
  return std::make_unique<GenerateTask>(std::move(generator));
}

}  // namespace downhaul

#include "apps/text_tasks.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "apps/text_answers.h"
#include "base/strings.h"

namespace downhaul {
namespace {

/// f32 scores of a shape; sizes below 0 are any.
Result<const Tensor*> scores(const TextModel& model, const std::vector<Tensor>& outputs,
                             size_t index, const Sizes& wanted) {
  const auto fits = [&](const Tensor& t) {
    if (t.dtype() != DType::kF32 || t.rank() != static_cast<int64_t>(wanted.size())) return false;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] >= 0 && t.sizes()[i] != wanted[i]) return false;
    }
    return true;
  };
  if (index < outputs.size() && fits(outputs[index])) return &outputs[index];
  std::vector<std::string> dims;
  for (const int64_t d : wanted) dims.push_back(d < 0 ? "n" : cat(d));
  return invalid_argument(
      cat("'", printable(model.model().path()), "': output ", index, " is ",
          index < outputs.size() ? describe(outputs[index]) : std::string("missing"),
          ", expected f32[", join(dims, ","), "]"));
}

/// Row `row` of the last axis.
std::span<const float> row_of(const Tensor& t, int64_t row) {
  const auto width = static_cast<size_t>(t.sizes().back());
  return {t.data<float>() + static_cast<size_t>(row) * width, width};
}

TextRun run_of(const TextOutput& output) { return {output.encoding.truncated, output.forward_ms}; }

std::string word_of(const text::Tokenizer& tokenizer, int64_t id) {
  const uint32_t one[] = {static_cast<uint32_t>(id)};
  const std::string decoded = tokenizer.decode(one, false);
  return std::string(trim(decoded));
}

/// Tokens of a question and of a context that does not fit, cut out of one encoding of both.
class Windows {
 public:
  /// `whole` is not padded. `room`: most tokens of a window.
  static Result<Windows> make(text::Encoding whole, int64_t room, int64_t overlap) {
    Windows out;
    const auto from_context = [&](size_t i) { return whole.sequence[i] == 1; };
    const size_t size = whole.size();
    while (out.begin_ < size && !from_context(out.begin_)) ++out.begin_;
    out.end_ = out.begin_;
    while (out.end_ < size && from_context(out.end_)) ++out.end_;
    const auto around = static_cast<int64_t>(size - (out.end_ - out.begin_));
    out.length_ = room - around;
    if (out.length_ < 1) {
      return invalid_argument(cat("the question has ", around,
                                  " tokens with the special ones, the "
                                  "model takes ",
                                  room, " with the context's"));
    }
    out.step_ = out.length_ - std::min(overlap, out.length_ / 2);
    out.whole_ = std::move(whole);
    return out;
  }

  int64_t count() const {
    const auto tokens = static_cast<int64_t>(end_ - begin_);
    return tokens <= length_ ? 1 : 1 + (tokens - length_ + step_ - 1) / step_;
  }
  text::Encoding at(int64_t index) const {
    const size_t from = begin_ + static_cast<size_t>(index * step_);
    const size_t to = std::min(end_, from + static_cast<size_t>(length_));
    text::Encoding out = whole_;
    const auto keep = [&](auto& v) {
      v.erase(v.begin() + static_cast<ptrdiff_t>(to), v.begin() + static_cast<ptrdiff_t>(end_));
      v.erase(v.begin() + static_cast<ptrdiff_t>(begin_), v.begin() + static_cast<ptrdiff_t>(from));
    };
    keep(out.ids);
    keep(out.type_ids);
    keep(out.attention_mask);
    keep(out.special_mask);
    keep(out.sequence);
    keep(out.byte_offsets);
    keep(out.offsets);
    return out;
  }

 private:
  text::Encoding whole_;
  size_t begin_ = 0, end_ = 0;  ///< of the context in it
  int64_t length_ = 0;          ///< context tokens of a window
  int64_t step_ = 1;
};

/// Adds what one window says. Equal parts of the context keep their largest probability.
Status add_answers(const TextModel& model, const TextOutput& output, std::string_view context,
                   const AnswerOptions& options,
                   std::map<std::pair<uint32_t, uint32_t>, ContextAnswer>& found,
                   double& no_answer) {
  const text::Encoding& e = output.encoding;
  const auto tokens = static_cast<int64_t>(e.size());
  DH_ASSIGN(const Tensor* start, scores(model, output.outputs, 0, {1, tokens}));
  DH_ASSIGN(const Tensor* end, scores(model, output.outputs, 1, {1, tokens}));
  std::vector<uint8_t> allowed;
  for (const int8_t s : e.sequence) allowed.push_back(s == 1 ? 1 : 0);
  const Answers answers =
      find_answers(row_of(*start, 0), row_of(*end, 0), allowed,
                   static_cast<size_t>(options.max_tokens), static_cast<size_t>(options.top));
  no_answer = std::min(no_answer, answers.no_answer);
  for (const AnswerSpan& span : answers.spans) {
    const uint32_t first = e.byte_offsets[span.first].begin;
    ContextAnswer answer{std::string(context.substr(first, e.byte_offsets[span.last].end - first)),
                         e.offsets[span.first].begin, e.offsets[span.last].end, span.probability};
    ContextAnswer& known = found[{answer.start, answer.end}];
    if (known.probability < answer.probability || known.text.empty()) known = std::move(answer);
  }
  return {};
}

}  // namespace

Result<FilledMasks> fill_masks(TextModel& model, std::string_view given, int64_t top) {
  const text::Tokenizer& tokenizer = model.tokenizer();
  if (!tokenizer.mask_id()) return invalid_argument("the tokenizer has no mask token");
  const std::string mask(tokenizer.piece(*tokenizer.mask_id()));
  FilledMasks out;
  out.text = text::replace_invalid_utf8(given);
  DH_ASSIGN(const TextOutput output, model.run(out.text));
  static_cast<TextRun&>(out) = run_of(output);
  const text::Encoding& e = output.encoding;
  for (size_t i = 0; i < e.size(); ++i) {
    if (e.ids[i] == *tokenizer.mask_id()) out.places.push_back({i, {}});
  }
  if (out.places.empty()) {
    return invalid_argument(
        cat("the text has no ", printable(mask), e.truncated ? " before the cut" : ""));
  }
  // All places' scores, or those of the one place that the program looks for itself.
  const bool one_row = !output.outputs.empty() && output.outputs[0].rank() == 2;
  if (one_row && out.places.size() > 1) {
    return invalid_argument(
        cat("the model fills in one ", printable(mask), ", the text has ", out.places.size()));
  }
  const auto tokens = static_cast<int64_t>(e.size());
  DH_ASSIGN(const Tensor* logits,
            scores(model, output.outputs, 0, one_row ? Sizes{1, -1} : Sizes{1, tokens, -1}));
  for (MaskedPlace& place : out.places) {
    const auto row = one_row ? 0 : static_cast<int64_t>(place.position);
    const text::Span at = e.byte_offsets[place.position];
    for (const Ranked& r : top_k(row_of(*logits, row), top)) {
      std::string word = word_of(tokenizer, r.index);
      std::string sentence = cat(out.text.substr(0, at.begin), word, out.text.substr(at.end));
      place.words.push_back({r, std::move(word), std::move(sentence)});
    }
  }
  return out;
}

Result<QuestionAnswers> answer_question(TextModel& model, std::string_view question,
                                        std::string_view given, const AnswerOptions& options) {
  const std::string asked = text::replace_invalid_utf8(question);
  const std::string context = text::replace_invalid_utf8(given);
  const std::string_view second = context;
  std::map<std::pair<uint32_t, uint32_t>, ContextAnswer> found;
  QuestionAnswers out;
  out.no_answer = 1;
  DH_ASSIGN(text::Encoding whole, model.tokens(asked, &second));
  if (model.truncates() || static_cast<int64_t>(whole.size()) <= model.max_tokens()) {
    DH_ASSIGN(const TextOutput output, model.run(asked, &second));
    static_cast<TextRun&>(out) = run_of(output);
    DH_TRY(add_answers(model, output, context, options, found, out.no_answer));
  } else {
    DH_ASSIGN(const Windows windows,
              Windows::make(std::move(whole), model.max_tokens(), options.overlap));
    out.windows = windows.count();
    for (int64_t i = 0; i < out.windows; ++i) {
      DH_ASSIGN(const TextOutput output, model.run_tokens(windows.at(i)));
      out.forward_ms += output.forward_ms;
      DH_TRY(add_answers(model, output, context, options, found, out.no_answer));
    }
  }
  for (auto& [place, answer] : found) out.answers.push_back(std::move(answer));
  std::stable_sort(out.answers.begin(), out.answers.end(),
                   [](const auto& a, const auto& b) { return a.probability > b.probability; });
  if (out.answers.size() > static_cast<size_t>(options.top)) {
    out.answers.resize(static_cast<size_t>(options.top));
  }
  return out;
}

Result<TaggedText> tag_text(TextModel& model, std::string_view given) {
  TaggedText out;
  out.text = text::replace_invalid_utf8(given);
  DH_ASSIGN(const TextOutput output, model.run(out.text));
  static_cast<TextRun&>(out) = run_of(output);
  const text::Encoding& e = output.encoding;
  const auto tokens = static_cast<int64_t>(e.size());
  DH_ASSIGN(const Tensor* logits, scores(model, output.outputs, 0, {1, tokens, -1}));
  std::vector<std::string> labels;
  std::vector<double> probabilities;
  for (int64_t i = 0; i < tokens; ++i) {
    const auto best = top_k(row_of(*logits, i), 1);
    labels.push_back(best.empty() ? "O" : model.model().label(best[0].index));
    probabilities.push_back(best.empty() ? 0 : best[0].probability);
  }
  for (TaggedSpan& s : merge_tags(labels, probabilities, e.special_mask)) {
    const uint32_t first = e.byte_offsets[s.first].begin;
    out.parts.push_back({std::move(s.label), s.probability,
                         out.text.substr(first, e.byte_offsets[s.last].end - first),
                         e.offsets[s.first].begin, e.offsets[s.last].end});
  }
  return out;
}

Result<RankedClasses> classify_text(TextModel& model, std::string_view given, int64_t top) {
  DH_ASSIGN(const TextOutput output, model.run(text::replace_invalid_utf8(given)));
  DH_ASSIGN(const Tensor* logits, scores(model, output.outputs, 0, {1, -1}));
  RankedClasses out;
  static_cast<TextRun&>(out) = run_of(output);
  out.classes = top_k(row_of(*logits, 0), top);
  return out;
}

Result<RankedClasses> choose_text(TextModel& model, std::string_view given,
                                  const std::vector<std::string>& choices) {
  const auto count = static_cast<int64_t>(choices.size());
  if (model.num_choices() != count) {
    return invalid_argument(
        cat("the model compares ", model.num_choices(), " choices, ", count, " are given"));
  }
  const std::string text = text::replace_invalid_utf8(given);
  RankedClasses out;
  std::vector<text::Encoding> encodings;
  size_t length = 0;
  for (const std::string& choice : choices) {
    const std::string second = text::replace_invalid_utf8(choice);
    const std::string_view view = second;
    DH_ASSIGN(auto encoding, model.encode(text, &view));
    out.truncated = out.truncated || encoding.truncated;
    length = std::max(length, encoding.size());
    encodings.push_back(std::move(encoding));
  }
  // Without a fixed length: as long as the longest.
  for (text::Encoding& e : encodings) model.pad(e, length);
  const auto begin = std::chrono::steady_clock::now();
  DH_ASSIGN(const std::vector<Tensor> outputs, model.run(encodings));
  out.forward_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  DH_ASSIGN(const Tensor* logits, scores(model, outputs, 0, {1, count}));
  out.classes = top_k(row_of(*logits, 0), count);
  return out;
}

Result<TextEmbeddings> embed_texts(TextModel& model, const std::vector<std::string>& texts,
                                   Pooling pooling, bool unit_length) {
  TextEmbeddings out;
  for (const std::string& given : texts) {
    DH_ASSIGN(const TextOutput output, model.run(text::replace_invalid_utf8(given)));
    out.truncated = out.truncated || output.encoding.truncated;
    out.forward_ms += output.forward_ms;
    const bool pooled = !output.outputs.empty() && output.outputs[0].rank() == 2;
    const auto tokens = static_cast<int64_t>(output.encoding.size());
    DH_ASSIGN(const Tensor* found,
              scores(model, output.outputs, 0, pooled ? Sizes{1, -1} : Sizes{1, tokens, -1}));
    std::vector<float> vector;
    if (pooled || pooling == Pooling::kFirst) {
      const auto row = row_of(*found, 0);
      vector.assign(row.begin(), row.end());
    } else {
      vector = mean_rows({found->data<float>(), static_cast<size_t>(found->num_elements())},
                         output.encoding.attention_mask);
    }
    if (unit_length) normalize_length(vector);
    out.vectors.push_back(std::move(vector));
  }
  return out;
}

}  // namespace downhaul

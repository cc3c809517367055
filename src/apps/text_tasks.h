#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ranking.h"
#include "apps/text_model.h"

/// What applications ask of text models, one function a task: from texts to answers.
///
/// Texts may hold any bytes; invalid UTF-8 is read as U+FFFD. Offsets count code points of the text
/// as it was read. All of them run the model, so they are not for several callers at a time.
/// Errors of all: those of TextModel::run; kInvalidArgument, naming the file, for a model whose
/// outputs are not the task's.
namespace downhaul {

/// What every answer says about its making.
struct TextRun {
  bool truncated = false;  ///< the text was cut to fit
  double forward_ms = 0;   ///< time in the model
};

struct MaskedWord {
  Ranked rank;           ///< its index is the token id
  std::string word;      ///< without the blanks around it
  std::string sentence;  ///< the text with the word in this place
};
struct MaskedPlace {
  size_t position = 0;  ///< among the tokens
  std::vector<MaskedWord> words;
};
struct FilledMasks : TextRun {
  std::string text;  ///< as it was read
  std::vector<MaskedPlace> places;
};
/// The `top` likeliest words for each mask token of `text`. Errors: kInvalidArgument for a text
/// without one, or with several where the model fills in one.
Result<FilledMasks> fill_masks(TextModel& model, std::string_view text, int64_t top);

struct AnswerOptions {
  int64_t top = 3;
  int64_t max_tokens = 15;  ///< of an answer
  /// Tokens that windows over a context that does not fit have in common; at most half of what
  /// fits.
  int64_t overlap = 128;
};
struct ContextAnswer {
  std::string text;
  uint32_t start = 0, end = 0;  ///< in the context
  double probability = 0;
};
struct QuestionAnswers : TextRun {
  std::vector<ContextAnswer> answers;  ///< likeliest first
  double no_answer = 0;                ///< probability that there is none
  int64_t windows = 1;                 ///< runs that it took
};
/// Parts of `context` that answer `question`. A context that does not fit is read through
/// overlapping windows, unless the model is to cut texts: an answer's probability is the largest
/// that a window gives it, that of no answer the smallest.
/// Errors: kInvalidArgument when the question leaves no room for the context.
Result<QuestionAnswers> answer_question(TextModel& model, std::string_view question,
                                        std::string_view context, const AnswerOptions& options);

struct TaggedPart {
  std::string label;
  double probability = 0;
  std::string text;
  uint32_t start = 0, end = 0;
};
struct TaggedText : TextRun {
  std::string text;  ///< as it was read
  std::vector<TaggedPart> parts;
};
/// Parts of a text by the labels of its tokens, neighbours of one label merged.
Result<TaggedText> tag_text(TextModel& model, std::string_view text);

struct RankedClasses : TextRun {
  std::vector<Ranked> classes;
};
/// The `top` likeliest classes of a text.
Result<RankedClasses> classify_text(TextModel& model, std::string_view text, int64_t top);

/// The choices, likeliest to go on after `text` first. Errors: kInvalidArgument for another number
/// of choices than the model compares.
Result<RankedClasses> choose_text(TextModel& model, std::string_view text,
                                  const std::vector<std::string>& choices);

enum class Pooling { kMean, kFirst };  ///< of models that give a vector for each token
struct TextEmbeddings : TextRun {
  std::vector<std::vector<float>> vectors;
};
/// One vector a text; of length 1 with `unit_length`.
Result<TextEmbeddings> embed_texts(TextModel& model, const std::vector<std::string>& texts,
                                   Pooling pooling, bool unit_length);

}  // namespace downhaul

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

/// From the scores of text models to what people ask for. Scores are one value a token, or one row.
namespace downhaul {

/// An answer as a range of tokens, both ends included.
struct AnswerSpan {
  size_t first = 0, last = 0;
  double probability = 0;  ///< of its start times that of its end
};
struct Answers {
  std::vector<AnswerSpan> spans;  ///< likeliest first, equal ones by place
  double no_answer = 0;           ///< probability that start and end are the first token
};
/// Spans of at most `max_tokens` tokens inside `allowed` (1: may be part of an answer). Start and
/// end are softmaxes over the allowed tokens and the first one, which stands for no answer.
Answers find_answers(std::span<const float> start, std::span<const float> end,
                     const std::vector<uint8_t>& allowed, size_t max_tokens, size_t count);

/// Neighbouring tokens of one label.
struct TaggedSpan {
  std::string label;       ///< without B- and I-
  double probability = 0;  ///< mean over its tokens
  size_t first = 0, last = 0;
};
/// Merges tokens whose labels say the same: B- begins anew, the other prefix goes on. Tokens that
/// are special stand between nothing; label "O" is left out.
///   labels, probabilities   the likeliest label of each token
std::vector<TaggedSpan> merge_tags(const std::vector<std::string>& labels,
                                   const std::vector<double>& probabilities,
                                   const std::vector<uint8_t>& special);

/// Mean of the rows of `hidden` ([tokens, width]) where `mask` is 1; zeros when it is nowhere.
std::vector<float> mean_rows(std::span<const float> hidden, const std::vector<uint8_t>& mask);
/// Cosine of the angle between two vectors of one length; 0 when either is all zeros.
double cosine(std::span<const float> a, std::span<const float> b);
/// Scales to length 1, unless all zeros.
void normalize_length(std::vector<float>& v);

}  // namespace downhaul

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/family.h"

/// What the text models share: token inputs, the mask, attention, and what is done with the hidden
/// states at the end.
namespace downhaul::models {

/// Sizes of the token inputs; open ones are symbols.
struct TextShape {
  Dim batch;   ///< rows that the model sees: choices included
  Dim length;  ///< tokens a row
  int64_t max_length = 0;
};

/// Checks the wanted length against the positions that there are.
/// Errors: kInvalidArgument naming --seq-len and `positions`.
Result<TextShape> text_shape(const Job& job, const Setting& positions, int64_t usable_positions);

struct TextInputs {
  TextShape shape;
  Value* ids = nullptr;        ///< i64 [batch, length]
  Value* mask = nullptr;       ///< i64 [batch, length]
  Value* types = nullptr;      ///< i64 [batch, length], or null
  Value* attention = nullptr;  ///< bool [batch, 1, 1, length]: true where there is a token
  std::optional<Dim>
      choices;    ///< rows of a question, when the inputs are [questions, choices, length]
  Dim questions;  ///< batch / choices
};
TextInputs text_inputs(Job& job, const TextShape& shape, bool choices);

/// Multi-head attention up to the concatenated heads, [batch, length, dim].
struct Heads {
  Extent dim;
  int64_t count = 1;
  double scale = 1;
};
Value* attend(Net& net, const TextShape& shape, const Heads& heads, Value* query, Value* key,
              Value* value, Value* mask);

/// Rows of a table of positions, [1, length, dim].
Value* position_rows(Net& net, const TextShape& shape, Value* table, const Extent& dim);

/// The logits of each row's first mask token, of place 0 where a row has none: [batch, vocab].
/// Errors: kInvalidArgument when nothing says which token is the mask.
Result<Value*> pick_mask_token(Job& job, const TextInputs& inputs, Value* logits,
                               const Setting& vocab);

/// One vector a row, [batch, dim]: the mean of the hidden states that the mask lets through. Where
/// the folder has a modules.json with a pooling of its own, that one (mean or first token), and of
/// length 1 if it says so. Errors: kUnsupported for another pooling, kInvalidFile.
Result<Value*> sentence_embedding(Job& job, const TextInputs& inputs, Value* hidden);

/// start_logits and end_logits, [batch, length] each.
Status finish_question_answering(Job& job, const TextInputs& inputs, Value* hidden,
                                 const Extent& dim);

/// The head in `options`, or the one of the configuration's `architectures`; must be one of
/// `known`. Errors: kInvalidArgument (--head), kInvalidFile (architectures), listing `known`.
Result<std::string> choose_head(Job& job, const std::vector<std::string_view>& known,
                                std::string_view otherwise);

}  // namespace downhaul::models

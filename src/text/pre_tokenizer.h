#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace downhaul::text {

/// Appends the words of `text` (UTF-8) as ranges of its bytes.

/// BERT's: white space separates, each punctuation character is a word of its own.
void split_bert(std::string_view text, std::vector<Span>& out);

/// GPT-2's: contractions, letters, numbers and the rest, each with a space before it if there is
/// one; white space. Nothing is left out.
void split_byte_level(std::string_view text, std::vector<Span>& out);

}  // namespace downhaul::text

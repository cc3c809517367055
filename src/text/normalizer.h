#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/definition.h"

namespace downhaul::text {

/// A piece of a text after normalization, with where each of its bytes comes from.
struct NormalizedText {
  std::string text;
  /// For each byte of `text`: the byte of the original text at which the character begins that it
  /// was made from.
  std::vector<uint32_t> origin;

  void clear() {
    text.clear();
    origin.clear();
  }
};

/// Buffers that BertNormalizer reuses.
struct NormalizerScratch {
  struct Item {
    uint32_t c;
    uint32_t origin;
    uint8_t combining;
    bool inserted;
  };
  std::vector<Item> items, decomposed;
};

/// Appends the normalized form of text[begin, end) to `out`; origins count from the start of
/// `text`, which is UTF-8. Source: BERT's BasicTokenizer, as `tokenizers` orders the steps.
void normalize(const BertNormalizer& how, std::string_view text, uint32_t begin, uint32_t end,
               NormalizerScratch& scratch, NormalizedText& out);

}  // namespace downhaul::text

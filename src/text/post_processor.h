#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/definition.h"

namespace downhaul::text {

/// A token of a text before anything is cut off or added.
struct RawToken {
  uint32_t id = 0;
  Span bytes;                   ///< in the original text, whole characters
  uint16_t leading_spaces = 0;  ///< characters of the piece that trim_offsets leaves out
  uint16_t trailing_spaces = 0;
};

/// One of the texts of an encoding with its tokens.
struct RawSequence {
  std::string_view text;
  std::vector<RawToken> tokens;
};

/// Cuts, adds special tokens and pads, in this order. `second` may be null. `out` is replaced.
/// Errors: kInvalidArgument for truncations that cannot be met.
Status post_process(const TokenizerDefinition& definition, const EncodeOptions& options,
                    RawSequence& first, RawSequence* second, Encoding& out);

/// Fills up to the length that `how` asks for.
void pad(const Padding& how, Encoding& out);

/// Special tokens that the definition's template adds.
size_t count_added(const TokenizerDefinition& definition, bool pair);

}  // namespace downhaul::text

#pragma once

#include <cstdint>
#include <string_view>

/// What the tokenizers need to know of Unicode. The data is ICU's, corrected so that any ICU from
/// 72 on gives what the Rust library `tokenizers` (0.23) gives. That library mixes tables of
/// several ages: general categories of Unicode 8, decompositions and combining classes of Unicode
/// 9, letters, numbers and lower case of Unicode 16 and later.
namespace downhaul::text {

enum CharFlag : uint16_t {
  kSpace = 1 << 0,    ///< White_Space
  kControl = 1 << 1,  ///< Cc, Cf, Co of Unicode 8 and U+FFFD, but not tab, LF, CR
  kPunctuation =
      1 << 2,  ///< category P of Unicode 8, and all ASCII that is neither letter nor digit
  kNonspacing = 1 << 3,  ///< category Mn of Unicode 8
  kLetter = 1 << 4,      ///< category L
  kNumber = 1 << 5,      ///< category N
  kWord = 1 << 6,        ///< \w of regular expressions
  kIdeograph = 1 << 7,   ///< one of the blocks around which BERT puts spaces
  kNfdActive = 1 << 8,   ///< decomposes, or has a combining class other than 0
  kHasLower = 1 << 9,    ///< its lower case is something else
};

/// The CharFlags of a scalar value. Safe to call from any thread.
uint16_t char_flags(uint32_t c);

/// One scalar value of well-formed UTF-8; advances `at`. `at` must be below the size.
inline uint32_t decode_utf8(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t b = byte(at);
  if (b < 0x80) return at += 1, b;
  if (b < 0xE0) return at += 2, (b & 0x1F) << 6 | (byte(at - 1) & 0x3F);
  if (b < 0xF0) {
    at += 3;
    return (b & 0x0F) << 12 | (byte(at - 2) & 0x3F) << 6 | (byte(at - 1) & 0x3F);
  }
  at += 4;
  return (b & 0x07) << 18 | (byte(at - 3) & 0x3F) << 12 | (byte(at - 2) & 0x3F) << 6 |
         (byte(at - 1) & 0x3F);
}

/// Lower case of one character, without context: at most three scalar values. Returns how many.
int lower_case(uint32_t c, uint32_t out[3]);

/// Canonical combining class; 0 for what Unicode 9 does not know.
uint8_t combining_class(uint32_t c);

/// Longest canonical decomposition of one character.
inline constexpr int kMaxDecomposition = 8;
/// Full canonical decomposition (the character itself when it has none). Returns how many.
int decompose(uint32_t c, uint32_t out[kMaxDecomposition]);

}  // namespace downhaul::text

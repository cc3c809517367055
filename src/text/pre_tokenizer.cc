#include "text/pre_tokenizer.h"

#include <array>

#include "text/unicode.h"

namespace downhaul::text {
namespace {

uint16_t flags_at(std::string_view text, size_t& at) {
  static const std::array<uint16_t, 128> ascii = [] {
    std::array<uint16_t, 128> t;
    for (uint32_t c = 0; c < 128; ++c) t[c] = char_flags(c);
    return t;
  }();
  const auto b = static_cast<uint8_t>(text[at]);
  if (b < 0x80) return ++at, ascii[b];
  return char_flags(decode_utf8(text, at));
}

// The classes of the regular expression; the last is what is neither.
constexpr uint16_t kClasses = kSpace | kLetter | kNumber;

// Length of the contraction at text[at], which is an apostrophe; 0 when there is none.
size_t contraction(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at + 1, 2);
  if (rest.empty()) return 0;
  if (rest[0] == 's' || rest[0] == 't' || rest[0] == 'm' || rest[0] == 'd') return 2;
  return rest == "re" || rest == "ve" || rest == "ll" ? 3 : 0;
}

}  // namespace

void split_bert(std::string_view text, std::vector<Span>& out) {
  size_t begin = 0;  // of the word that is being read
  size_t at = 0;
  const auto add = [&](size_t from, size_t to) {
    if (from < to) out.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(to)});
  };
  while (at < text.size()) {
    const size_t here = at;
    const uint16_t flags = flags_at(text, at);
    if ((flags & (kSpace | kPunctuation)) == 0) continue;
    add(begin, here);
    if ((flags & kSpace) == 0) add(here, at);
    begin = at;
  }
  add(begin, text.size());
}

void split_byte_level(std::string_view text, std::vector<Span>& out) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = at;
    size_t length = text[at] == '\'' ? contraction(text, at) : 0;
    if (length > 0) {
      at += length;
      out.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(at)});
      continue;
    }
    size_t next = at;
    uint16_t kind = flags_at(text, next) & kClasses;
    if (text[at] == ' ' && next < text.size()) {
      size_t second = next;
      const uint16_t behind = flags_at(text, second) & kClasses;
      if (behind != kSpace) {
        kind = behind;
        next = second;
      }
    }
    // The run of this kind; `last` is where its last character begins.
    size_t last = begin;
    while (next < text.size()) {
      size_t after = next;
      if ((flags_at(text, after) & kClasses) != kind) break;
      last = next;
      next = after;
    }
    // The last white space before something else belongs to what follows, or stands alone.
    if (kind == kSpace && next < text.size() && last > begin) next = last;
    at = next;
    out.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(at)});
  }
}

}  // namespace downhaul::text

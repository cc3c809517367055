#include "text/tokenizer.h"

namespace downhaul::text {
namespace {

// Length of the well-formed character at `at`, or minus that of the maximal part of one.
int character(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> uint32_t {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : 0;
  };
  const uint32_t lead = byte(at);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return -1;
  // The second byte rules out overlong forms, surrogates and what lies above U+10FFFF.
  const uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  const int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  for (int i = 1; i < length; ++i) {
    const uint32_t b = byte(at + static_cast<size_t>(i));
    if (i == 1 ? b < low || b > high : b < 0x80 || b > 0xBF) return -i;
  }
  return length;
}

}  // namespace

std::string replace_invalid_utf8(std::string_view text, size_t* replaced) {
  std::string out;
  out.reserve(text.size());
  size_t count = 0;
  for (size_t at = 0; at < text.size();) {
    const int length = character(text, at);
    if (length > 0) {
      out.append(text, at, static_cast<size_t>(length));
      at += static_cast<size_t>(length);
    } else {
      out.append("\xEF\xBF\xBD");
      at += static_cast<size_t>(-length);
      ++count;
    }
  }
  if (replaced != nullptr) *replaced = count;
  return out;
}

}  // namespace downhaul::text

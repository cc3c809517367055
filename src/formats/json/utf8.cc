#include "formats/json/utf8.h"

#include <cstring>

namespace downhaul {

bool is_valid_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const uint8_t*>(text.data());
  const uint8_t* const end = p + text.size();
  while (p < end) {
    if (end - p >= 8) {
      uint64_t word;
      std::memcpy(&word, p, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        p += 8;
        continue;
      }
    }
    const uint8_t lead = *p;
    if (lead < 0x80) {
      ++p;
      continue;
    }
    const int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || end - p < length) return false;
    for (int i = 1; i < length; ++i) {
      if ((p[i] & 0xC0) != 0x80) return false;
    }
    // The second byte rules out overlong forms, surrogates and what lies above U+10FFFF.
    const uint8_t second = p[1];
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
      return false;
    }
    p += length;
  }
  return true;
}

void append_utf8(std::string& out, uint32_t c) {
  const auto tail = [](uint32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (c >> 6)));
    out.push_back(tail(c));
  } else if (c < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (c >> 12)));
    out.push_back(tail(c >> 6));
    out.push_back(tail(c));
  } else {
    out.push_back(static_cast<char>(0xF0 | (c >> 18)));
    out.push_back(tail(c >> 12));
    out.push_back(tail(c >> 6));
    out.push_back(tail(c));
  }
}

}  // namespace downhaul

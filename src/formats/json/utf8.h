#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace downhaul {

/// True when `text` is well-formed UTF-8 (no surrogates, no overlong forms, at most U+10FFFF).
bool is_valid_utf8(std::string_view text);

/// Appends `code_point` (a scalar value) as UTF-8.
void append_utf8(std::string& out, uint32_t code_point);

}  // namespace downhaul

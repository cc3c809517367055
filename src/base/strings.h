#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

/// Text helpers; messages are built with `cat("node ", 3, ": ", name)`.
namespace downhaul {

namespace internal {
inline void append_piece(std::string& out, std::string_view s) { out.append(s); }
inline void append_piece(std::string& out, const std::string& s) { out.append(s); }
inline void append_piece(std::string& out, const char* s) { out.append(s); }
inline void append_piece(std::string& out, char c) { out.push_back(c); }
inline void append_piece(std::string& out, bool b) { out.append(b ? "true" : "false"); }
template <std::integral T>
void append_piece(std::string& out, T v) {
  char buf[24];
  const auto r = std::to_chars(buf, buf + sizeof(buf), v);
  out.append(buf, r.ptr);
}
/// Shortest decimal that reads back to the same value; "inf", "-inf", "nan" as such.
template <std::floating_point T>
void append_piece(std::string& out, T v) {
  char buf[40];
  const auto r = std::to_chars(buf, buf + sizeof(buf), v);
  out.append(buf, r.ptr);
}
}  // namespace internal

template <typename... Args>
std::string cat(const Args&... args) {
  std::string out;
  (internal::append_piece(out, args), ...);
  return out;
}

/// Joins anything that `cat` accepts.
template <typename Range>
std::string join(const Range& items, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out.append(separator);
    first = false;
    internal::append_piece(out, item);
  }
  return out;
}

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);

/// `value` with `decimals` digits after the point.
std::string fixed(double value, int decimals);

/// Bytes of unknown origin made safe for a one-line message: control characters and invalid UTF-8
/// are written \xNN, and the text is cut after `max_bytes` with "...".
std::string printable(std::string_view text, size_t max_bytes = 200);

}  // namespace downhaul

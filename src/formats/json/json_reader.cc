#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/strings.h"
#include "formats/json/json.h"
#include "formats/json/utf8.h"

namespace downhaul {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// First byte from `p` that a plain run of string characters cannot hold: a quote, a backslash or a
/// control character. Eight bytes at a step: most of a program's text is stack traces.
const char* end_of_plain_run(const char* p, const char* end) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  constexpr uint64_t kHigh = 0x8080808080808080u;
  while (end - p >= 8) {
    uint64_t w;
    std::memcpy(&w, p, sizeof(w));
    const uint64_t quote = w ^ (kOnes * '"');
    const uint64_t slash = w ^ (kOnes * '\\');
    // Each term has the high bit of a byte set where the byte matches; false hits come only from
    // borrows above a true one, and then the byte loop below decides.
    const uint64_t hit =
        ((quote - kOnes) & ~quote) | ((slash - kOnes) & ~slash) | ((w - kOnes * 0x20) & ~w);
    if ((hit & kHigh) != 0) break;
    p += 8;
  }
  while (p < end && *p != '"' && *p != '\\' && static_cast<unsigned char>(*p) >= 0x20) ++p;
  return p;
}

}  // namespace

struct JsonReader::Impl {
  const char* begin;
  const char* p;
  const char* end;
  JsonOptions options;
  /// Open containers, '{' or '['.
  std::string open;
  /// True between entering a container and its first member or element.
  bool first = false;
  /// Decoded text of the last string with escapes.
  std::string scratch;

  void skip_space() {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) ++p;
  }

  Status fail(std::string_view message) const {
    return invalid_file(cat("JSON byte ", p - begin, ": ", message));
  }

  Status unexpected(std::string_view wanted) const {
    if (p >= end) return fail(cat("expected ", wanted, ", the text ends"));
    return fail(cat("expected ", wanted, ", found '", printable({p, 1}), "'"));
  }

  /// End of the number at p, or null when it is malformed. Sets `integer`.
  const char* number_end(bool& integer) const {
    const char* q = p;
    integer = true;
    if (q < end && *q == '-') ++q;
    if (q >= end || !is_digit(*q)) return nullptr;
    if (*q == '0') {
      ++q;
    } else {
      while (q < end && is_digit(*q)) ++q;
    }
    if (q < end && *q == '.') {
      integer = false;
      ++q;
      if (q >= end || !is_digit(*q)) return nullptr;
      while (q < end && is_digit(*q)) ++q;
    }
    if (q < end && (*q == 'e' || *q == 'E')) {
      integer = false;
      ++q;
      if (q < end && (*q == '+' || *q == '-')) ++q;
      if (q >= end || !is_digit(*q)) return nullptr;
      while (q < end && is_digit(*q)) ++q;
    }
    return q;
  }

  bool starts_with(std::string_view word) const {
    return static_cast<size_t>(end - p) >= word.size() &&
           std::memcmp(p, word.data(), word.size()) == 0;
  }

  /// A bare NaN, Infinity or -Infinity at p; its length, or 0.
  size_t non_finite(double& out) const {
    if (!options.non_finite) return 0;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (starts_with("NaN")) return out = std::numeric_limits<double>::quiet_NaN(), 3;
    if (starts_with("Infinity")) return out = kInfinity, 8;
    if (starts_with("-Infinity")) return out = -kInfinity, 9;
    return 0;
  }

  Kind kind() const {
    if (p >= end) return Kind::kError;
    switch (*p) {
      case '{':
        return Kind::kObject;
      case '[':
        return Kind::kArray;
      case '"':
        return Kind::kString;
      case 't':
        return starts_with("true") ? Kind::kBool : Kind::kError;
      case 'f':
        return starts_with("false") ? Kind::kBool : Kind::kError;
      case 'n':
        return starts_with("null") ? Kind::kNull : Kind::kError;
      default:
        break;
    }
    double ignored;
    if (non_finite(ignored) > 0) return Kind::kFloat;
    bool integer;
    if (number_end(integer) == nullptr) return Kind::kError;
    return integer ? Kind::kInteger : Kind::kFloat;
  }

  Status hex4(uint32_t& out) {
    if (end - p < 4) return unexpected("four hexadecimal digits");
    const auto r = std::from_chars(p, p + 4, out, 16);
    if (r.ptr != p + 4) return unexpected("four hexadecimal digits");
    p += 4;
    return {};
  }

  /// p is behind the backslash.
  Status decode_escape() {
    if (p >= end) return unexpected("an escape");
    const char c = *p++;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        scratch.push_back(c);
        return {};
      case 'b':
        scratch.push_back('\b');
        return {};
      case 'f':
        scratch.push_back('\f');
        return {};
      case 'n':
        scratch.push_back('\n');
        return {};
      case 'r':
        scratch.push_back('\r');
        return {};
      case 't':
        scratch.push_back('\t');
        return {};
      case 'u':
        break;
      default:
        --p;
        return unexpected("an escape");
    }
    uint32_t unit;
    DH_TRY(hex4(unit));
    if (unit >= 0xD800 && unit < 0xE000) {
      if (unit >= 0xDC00 || !starts_with("\\u")) return fail("lone surrogate in a string");
      p += 2;
      uint32_t low;
      DH_TRY(hex4(low));
      if (low < 0xDC00 || low > 0xDFFF) return fail("lone surrogate in a string");
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(scratch, unit);
    return {};
  }

  /// The string at p; `out` points into the text, or into scratch when it has escapes.
  Status parse_string(std::string_view& out) {
    const char* const start = ++p;
    p = end_of_plain_run(p, end);
    if (p < end && *p == '"') {
      out = {start, static_cast<size_t>(p - start)};
    } else {
      scratch.assign(start, p);
      while (true) {
        if (p >= end) return unexpected("the end of a string");
        if (*p == '"') break;
        if (*p != '\\') return fail("control character in a string");
        ++p;
        DH_TRY(decode_escape());
        const char* const run = p;
        p = end_of_plain_run(p, end);
        scratch.append(run, p);
      }
      out = scratch;
    }
    ++p;
    if (!is_valid_utf8(out)) return fail("string is not valid UTF-8");
    return {};
  }

  Status skip_string() {
    ++p;
    while (true) {
      p = end_of_plain_run(p, end);
      if (p >= end) return unexpected("the end of a string");
      if (*p == '"') break;
      if (*p != '\\') return fail("control character in a string");
      p += 2;
      if (p > end) {
        p = end;
        return unexpected("the end of a string");
      }
    }
    ++p;
    return {};
  }

  Status enter(char bracket) {
    if (open.size() >= options.max_depth) {
      return fail(cat("nested deeper than ", options.max_depth, " levels"));
    }
    open.push_back(bracket);
    ++p;
    first = true;
    return {};
  }

  /// Moves to the next member or element of the innermost container; false at its end.
  Status advance(bool& more) {
    const char close = open.back() == '{' ? '}' : ']';
    skip_space();
    if (p < end && *p == close) {
      ++p;
      open.pop_back();
      first = false;
      more = false;
      return {};
    }
    if (!first) {
      if (p >= end || *p != ',') return unexpected(close == '}' ? "',' or '}'" : "',' or ']'");
      ++p;
      skip_space();
    }
    first = false;
    more = true;
    return {};
  }

  Status member_key(std::string_view& key) {
    if (p >= end || *p != '"') return unexpected("a member name");
    DH_TRY(parse_string(key));
    skip_space();
    if (p >= end || *p != ':') return unexpected("':'");
    ++p;
    skip_space();
    return {};
  }

  Status skip_scalar() {
    switch (kind()) {
      case Kind::kNull:
        p += 4;
        return {};
      case Kind::kBool:
        p += *p == 't' ? 4 : 5;
        return {};
      case Kind::kString:
        return skip_string();
      case Kind::kInteger:
      case Kind::kFloat: {
        double ignored;
        bool integer;
        const size_t length = non_finite(ignored);
        p = length > 0 ? p + length : number_end(integer);
        return {};
      }
      default:
        return unexpected("a value");
    }
  }
};

JsonReader::JsonReader(std::string_view text, JsonOptions options)
    : impl_(new Impl{text.data(), text.data(), text.data() + text.size(), options, {}, false, {}}) {
  if (options.leading_whitespace) impl_->skip_space();
}

JsonReader::~JsonReader() = default;

JsonReader::Kind JsonReader::kind() const { return impl_->kind(); }

uint64_t JsonReader::position() const { return static_cast<uint64_t>(impl_->p - impl_->begin); }

Status JsonReader::error(std::string_view message) const { return impl_->fail(message); }

Status JsonReader::expect(Kind wanted) {
  static constexpr std::string_view kNames[] = {"null",     "true or false", "an integer",
                                                "a number", "a string",      "an object",
                                                "an array", "a value"};
  if (impl_->kind() == wanted) return {};
  return impl_->unexpected(kNames[static_cast<size_t>(wanted)]);
}

Status JsonReader::read(bool& out) {
  DH_TRY(expect(Kind::kBool));
  out = *impl_->p == 't';
  impl_->p += out ? 4 : 5;
  return {};
}

namespace {
template <typename T>
Status read_integer(const char*& p, const char* end, const JsonReader& reader, T& out) {
  const auto r = std::from_chars(p, end, out);
  if (r.ec != std::errc() || r.ptr != end) {
    return reader.error(cat("integer ", printable({p, static_cast<size_t>(end - p)}, 40),
                            " is out of range, expected ", std::numeric_limits<T>::min(), " to ",
                            std::numeric_limits<T>::max()));
  }
  p = end;
  return {};
}
}  // namespace

#define DH_READ_INTEGER(type)                                              \
  Status JsonReader::read(type& out) {                                     \
    DH_TRY(expect(Kind::kInteger));                                        \
    bool integer;                                                          \
    return read_integer(impl_->p, impl_->number_end(integer), *this, out); \
  }
DH_READ_INTEGER(int64_t)
DH_READ_INTEGER(int32_t)
DH_READ_INTEGER(uint64_t)
DH_READ_INTEGER(uint32_t)
DH_READ_INTEGER(uint8_t)
#undef DH_READ_INTEGER

Status JsonReader::read(double& out) {
  if (const size_t length = impl_->non_finite(out); length > 0) {
    impl_->p += length;
    return {};
  }
  const Kind found = kind();
  if (found == Kind::kString) {
    std::string_view text;
    const Status position = impl_->unexpected("a number");
    DH_TRY(impl_->parse_string(text));
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (text == "NaN") {
      out = std::numeric_limits<double>::quiet_NaN();
    } else if (text == "Infinity") {
      out = kInfinity;
    } else if (text == "-Infinity") {
      out = -kInfinity;
    } else {
      return position;
    }
    return {};
  }
  if (found != Kind::kInteger && found != Kind::kFloat) return impl_->unexpected("a number");
  bool integer;
  const char* const stop = impl_->number_end(integer);
  const auto r = std::from_chars(impl_->p, stop, out);
  if (r.ec == std::errc::result_out_of_range) {
    // Too large and too small look alike there; strtod tells them apart.
    out = std::strtod(std::string(impl_->p, stop).c_str(), nullptr);
    if (out >= std::numeric_limits<double>::max() || out <= std::numeric_limits<double>::lowest()) {
      return error("number is too large for a double");
    }
  } else if (r.ec != std::errc() || r.ptr != stop) {
    return impl_->unexpected("a number");
  }
  impl_->p = stop;
  return {};
}

Status JsonReader::read(std::string& out) {
  DH_TRY(expect(Kind::kString));
  std::string_view text;
  DH_TRY(impl_->parse_string(text));
  out.assign(text);
  return {};
}

Status JsonReader::read(std::vector<bool>& out) {
  out.clear();
  return array([&]() -> Status {
    bool v = false;
    DH_TRY(read(v));
    out.push_back(v);
    return {};
  });
}

Status JsonReader::skip() {
  const size_t outer = impl_->open.size();
  std::string_view key;
  while (true) {
    const char c = impl_->p < impl_->end ? *impl_->p : '\0';
    if (c == '{' || c == '[') {
      DH_TRY(impl_->enter(c));
    } else {
      DH_TRY(impl_->skip_scalar());
    }
    bool more = false;
    while (impl_->open.size() > outer && !more) {
      const bool object = impl_->open.back() == '{';
      DH_TRY(impl_->advance(more));
      if (more && object) DH_TRY(impl_->member_key(key));
    }
    if (!more) return {};
  }
}

Status JsonReader::enter_object() {
  DH_TRY(expect(Kind::kObject));
  return impl_->enter('{');
}

Status JsonReader::enter_array() {
  DH_TRY(expect(Kind::kArray));
  return impl_->enter('[');
}

Result<bool> JsonReader::next_member(std::string_view& key) {
  bool more = false;
  DH_TRY(impl_->advance(more));
  if (more) DH_TRY(impl_->member_key(key));
  return more;
}

Result<bool> JsonReader::next_element() {
  bool more = false;
  DH_TRY(impl_->advance(more));
  return more;
}

Status JsonReader::finish() {
  impl_->skip_space();
  if (impl_->p < impl_->end) return impl_->unexpected("the end of the text");
  return {};
}

}  // namespace downhaul

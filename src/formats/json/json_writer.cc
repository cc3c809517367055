#include <cmath>

#include "base/strings.h"
#include "formats/json/json.h"
#include "formats/json/utf8.h"

namespace downhaul {
namespace {

/// Arrays of scalars no longer than this stay on one line.
constexpr size_t kShortArrayBytes = 80;

template <typename T>
std::string float_text(T v) {
  if (std::isnan(v)) return "\"NaN\"";
  if (std::isinf(v)) return v > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  std::string text = cat(v);
  // Without a point or an exponent a reader would take it for an integer.
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

void JsonWriter::before_value(bool is_scalar) {
  if (levels_.empty()) {
    DH_CHECK(out_.empty());
    return;
  }
  Level& level = levels_.back();
  if (level.object) {
    DH_CHECK(key_written_);
    key_written_ = false;
    return;
  }
  level.starts.push_back(out_.size());
  if (!is_scalar) level.scalars_only = false;
}

JsonWriter& JsonWriter::begin_object() {
  before_value(false);
  levels_.push_back({true, true, out_.size(), {}});
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  before_value(false);
  levels_.push_back({false, true, out_.size(), {}});
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  DH_CHECK(!levels_.empty() && levels_.back().object && !key_written_);
  levels_.back().starts.push_back(out_.size());
  append_string(name);
  out_ += style_ == Style::kPretty ? ": " : ":";
  key_written_ = true;
  return *this;
}

// Members and elements are written one behind the other; only now that their sizes are known are
// they separated.
void JsonWriter::close(char bracket) {
  const Level level = std::move(levels_.back());
  levels_.pop_back();
  const std::string body = out_.substr(level.begin);
  out_.resize(level.begin);
  const bool one_line = style_ == Style::kCompact || level.starts.empty() ||
                        (!level.object && level.scalars_only &&
                         body.size() + 2 * level.starts.size() <= kShortArrayBytes);
  const std::string line_end = "\n" + std::string(2 * (levels_.size() + 1), ' ');
  out_.push_back(level.object ? '{' : '[');
  for (size_t i = 0; i < level.starts.size(); ++i) {
    const size_t from = level.starts[i] - level.begin;
    const size_t to = i + 1 < level.starts.size() ? level.starts[i + 1] - level.begin : body.size();
    if (i > 0) out_.push_back(',');
    if (!one_line) {
      out_ += line_end;
    } else if (i > 0 && style_ == Style::kPretty) {
      out_.push_back(' ');
    }
    out_.append(body, from, to - from);
  }
  if (!one_line) out_.append(line_end, 0, line_end.size() - 2);
  out_.push_back(bracket);
}

JsonWriter& JsonWriter::end_object() {
  DH_CHECK(!levels_.empty() && levels_.back().object && !key_written_);
  close('}');
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  DH_CHECK(!levels_.empty() && !levels_.back().object);
  close(']');
  return *this;
}

void JsonWriter::append_string(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  // Texts may be file names, which can hold any byte.
  const bool valid = is_valid_utf8(text);
  out_.push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"':
        out_ += "\\\"";
        break;
      case '\\':
        out_ += "\\\\";
        break;
      case '\n':
        out_ += "\\n";
        break;
      case '\r':
        out_ += "\\r";
        break;
      case '\t':
        out_ += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out_ += "\\u00";
          out_.push_back(kHex[c >> 4]);
          out_.push_back(kHex[c & 15]);
        } else if (!valid && static_cast<unsigned char>(c) >= 0x80) {
          out_ += "\\ufffd";
        } else {
          out_.push_back(c);
        }
    }
  }
  out_.push_back('"');
}

JsonWriter& JsonWriter::scalar(std::string_view text) {
  before_value(true);
  out_ += text;
  return *this;
}

JsonWriter& JsonWriter::null() { return scalar("null"); }
JsonWriter& JsonWriter::value(bool v) { return scalar(v ? "true" : "false"); }
JsonWriter& JsonWriter::value(int64_t v) { return scalar(cat(v)); }
JsonWriter& JsonWriter::value(uint64_t v) { return scalar(cat(v)); }
JsonWriter& JsonWriter::value(double v) { return scalar(float_text(v)); }
JsonWriter& JsonWriter::value(float v) { return scalar(float_text(v)); }
JsonWriter& JsonWriter::value(std::string_view v) {
  before_value(true);
  append_string(v);
  return *this;
}

JsonWriter& JsonWriter::value(const JsonValue& v) {
  if (const auto* object = v.as_object()) {
    begin_object();
    for (const auto& [name, member] : *object) field(name, member);
    return end_object();
  }
  if (const auto* array = v.as_array()) {
    begin_array();
    for (const JsonValue& element : *array) value(element);
    return end_array();
  }
  if (const auto* text = v.as_string()) return value(std::string_view(*text));
  if (v.is_null()) return null();
  if (const auto flag = v.as_bool()) return value(*flag);
  if (const auto integer = v.as_int()) return value(*integer);
  if (const auto integer = v.as_uint()) return value(*integer);
  return value(*v.as_double());
}

std::string JsonWriter::take() {
  DH_CHECK(levels_.empty() && !out_.empty());
  if (style_ == Style::kPretty) out_.push_back('\n');
  return std::exchange(out_, {});
}

}  // namespace downhaul

#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

/// JSON in three sizes: JsonReader pulls values out of a text straight into structs, JsonValue
/// holds a small document, JsonWriter writes.
namespace downhaul {

struct JsonOptions {
  /// Deepest nesting of objects and arrays that is accepted.
  uint32_t max_depth = 256;
  /// Accepts bare NaN, Infinity and -Infinity as numbers (not JSON, but Python writes them).
  bool non_finite = true;
  /// Accepts spaces and line ends in front of the value.
  bool leading_whitespace = true;
};

/// Pulls values from a JSON text, in order, without building a document. One value is current at
/// any time; every read_* and skip() consumes it. Nesting costs no stack except where the caller
/// recurses. The text must outlive the reader. Errors: kInvalidFile, naming the byte position.
/// Integers are exact over int64 (uint64 through read_uint64); strings handed out are valid UTF-8.
class JsonReader {
 public:
  enum class Kind : uint8_t { kNull, kBool, kInteger, kFloat, kString, kObject, kArray, kError };

  explicit JsonReader(std::string_view text, JsonOptions options = {});
  ~JsonReader();
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  /// What the current value is; kError when the text is malformed there (any read says why).
  Kind kind() const;
  /// Bytes read so far, for messages and for giving pages back.
  uint64_t position() const;

  Status read(bool& out);
  Status read(int64_t& out);
  Status read(int32_t& out);
  Status read(uint32_t& out);
  Status read(uint64_t& out);
  Status read(uint8_t& out);
  /// Accepts integers, and the strings "NaN", "Infinity", "-Infinity".
  Status read(double& out);
  Status read(std::string& out);
  /// null gives nullopt.
  template <typename T>
  Status read(std::optional<T>& out) {
    if (kind() == Kind::kNull) {
      out.reset();
      return skip();
    }
    return read(out.emplace());
  }
  template <typename T>
  Status read(std::vector<T>& out) {
    out.clear();
    return array([&]() -> Status { return read(out.emplace_back()); });
  }
  Status read(std::vector<bool>& out);

  /// Passes over the current value, however deep, and keeps nothing of it.
  Status skip();

  /// Reads an object: `on_member(key)` is called with the member's value current and must consume
  /// it. The key is valid until then only if the callee does not read; copy it to keep it.
  template <typename F>
  Status object(F&& on_member) {
    DH_TRY(enter_object());
    std::string_view key;
    while (true) {
      DH_ASSIGN(const bool more, next_member(key));
      if (!more) return {};
      DH_TRY(on_member(key));
    }
  }
  /// Reads an array: `on_element()` is called once an element and must consume it.
  template <typename F>
  Status array(F&& on_element) {
    DH_TRY(enter_array());
    while (true) {
      DH_ASSIGN(const bool more, next_element());
      if (!more) return {};
      DH_TRY(on_element());
    }
  }

  /// After the outermost value: nothing but white space may follow.
  Status finish();

  /// "byte 123: <message>", to report a value that has the wrong meaning.
  Status error(std::string_view message) const;

 private:
  Status enter_object();
  Status enter_array();
  Result<bool> next_member(std::string_view& key);
  Result<bool> next_element();
  Status expect(Kind wanted);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A small JSON document; members keep their order. Immutable once made, cheap to move.
class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;

  JsonValue() = default;                                       ///< null
  JsonValue(std::nullptr_t) {}                                 // NOLINT
  JsonValue(bool v) : value_(v) {}                             // NOLINT
  JsonValue(int v) : value_(static_cast<int64_t>(v)) {}        // NOLINT
  JsonValue(uint32_t v) : value_(static_cast<uint64_t>(v)) {}  // NOLINT
  JsonValue(int64_t v) : value_(v) {}                          // NOLINT
  JsonValue(uint64_t v) : value_(v) {}                         // NOLINT
  JsonValue(double v) : value_(v) {}                           // NOLINT
  JsonValue(std::string v) : value_(std::move(v)) {}           // NOLINT
  JsonValue(std::string_view v) : value_(std::string(v)) {}    // NOLINT
  JsonValue(const char* v) : value_(std::string(v)) {}         // NOLINT
  JsonValue(Array v) : value_(std::move(v)) {}                 // NOLINT
  JsonValue(Object v) : value_(std::move(v)) {}                // NOLINT

  /// Errors: kInvalidFile for malformed text, a duplicate key (named), or bytes after the value.
  static Result<JsonValue> parse(std::string_view text, JsonOptions options = {});
  /// The current value of `reader`, which is consumed. Errors: as parse.
  static Result<JsonValue> read(JsonReader& reader);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_integer() const {
    return std::holds_alternative<int64_t>(value_) || std::holds_alternative<uint64_t>(value_);
  }

  /// nullopt when the value is of another kind (or does not fit).
  std::optional<bool> as_bool() const;
  std::optional<int64_t> as_int() const;
  std::optional<uint64_t> as_uint() const;
  std::optional<double> as_double() const;  ///< integers too
  /// nullptr when the value is of another kind.
  const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  const Array* as_array() const { return std::get_if<Array>(&value_); }
  const Object* as_object() const { return std::get_if<Object>(&value_); }

  /// Member of an object; null when this is no object or has no such member.
  const JsonValue* find(std::string_view key) const;
  /// Members or elements; empty for other kinds.
  const Object& members() const;
  const Array& elements() const;

  /// "null", "boolean", "integer", "number", "string", "array", "object": for messages.
  std::string_view kind_name() const;

  /// Bits of numbers are compared as values of their own kind: 1 and 1.0 differ.
  friend bool operator==(const JsonValue&, const JsonValue&) = default;

 private:
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, Array, Object> value_;
};

/// Writes JSON text in the order of the calls. Floats are the shortest decimals that read back to
/// the same value and always show a point or exponent; NaN and infinities become the strings "NaN",
/// "Infinity", "-Infinity". In a string that is not UTF-8 every byte above 0x7F becomes U+FFFD.
/// Misuse (a value without key in an object) is a DH_CHECK.
class JsonWriter {
 public:
  enum class Style {
    kCompact,
    kPretty
  };  ///< kPretty: two spaces a level, short arrays of scalars
      ///< on one line

  explicit JsonWriter(Style style = Style::kPretty) : style_(style) {}

  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);
  JsonWriter& null();
  JsonWriter& value(bool v);
  JsonWriter& value(int v) { return value(static_cast<int64_t>(v)); }
  JsonWriter& value(int64_t v);
  JsonWriter& value(uint64_t v);
  JsonWriter& value(uint32_t v) { return value(static_cast<uint64_t>(v)); }
  JsonWriter& value(double v);
  JsonWriter& value(float v);
  JsonWriter& value(std::string_view v);
  JsonWriter& value(const std::string& v) { return value(std::string_view(v)); }
  JsonWriter& value(const char* v) { return value(std::string_view(v)); }
  JsonWriter& value(const JsonValue& v);
  template <typename T>
  JsonWriter& value(const std::optional<T>& v) {
    return v ? value(*v) : null();
  }
  template <typename T>
  JsonWriter& value(const std::vector<T>& v) {
    begin_array();
    for (const auto& e : v) value(static_cast<const T&>(e));
    return end_array();
  }
  template <typename T>
  JsonWriter& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }

  /// The finished text (kPretty ends with a line end). The outermost value must be closed.
  std::string take();

 private:
  struct Level {
    bool object = false;
    bool scalars_only = true;
    size_t begin = 0;            ///< where the level's text starts in out_
    std::vector<size_t> starts;  ///< where each element starts, for the choice of line breaks
  };
  void before_value(bool scalar);
  void close(char bracket);
  void append_string(std::string_view text);
  JsonWriter& scalar(std::string_view text);

  Style style_;
  std::string out_;
  std::vector<Level> levels_;
  bool key_written_ = false;
};

/// `value` as text.
std::string to_json(const JsonValue& value, JsonWriter::Style style = JsonWriter::Style::kPretty);

}  // namespace downhaul

#include <algorithm>

#include "base/strings.h"
#include "formats/json/json.h"

namespace downhaul {
namespace {

// Recursion is bounded by the reader's depth limit.
Status read_value(JsonReader& reader, JsonValue& out) {
  switch (reader.kind()) {
    case JsonReader::Kind::kNull:
      out = JsonValue();
      return reader.skip();
    case JsonReader::Kind::kBool: {
      bool v = false;
      DH_TRY(reader.read(v));
      out = v;
      return {};
    }
    case JsonReader::Kind::kInteger: {
      int64_t v = 0;
      if (reader.read(v).ok()) {
        out = v;
        return {};
      }
      uint64_t u = 0;
      if (reader.read(u).ok()) {
        out = u;
        return {};
      }
      double d = 0;
      DH_TRY(reader.read(d));
      out = d;
      return {};
    }
    case JsonReader::Kind::kFloat: {
      double v = 0;
      DH_TRY(reader.read(v));
      out = v;
      return {};
    }
    case JsonReader::Kind::kArray: {
      JsonValue::Array items;
      DH_TRY(reader.array([&]() -> Status { return read_value(reader, items.emplace_back()); }));
      out = std::move(items);
      return {};
    }
    case JsonReader::Kind::kObject: {
      JsonValue::Object members;
      DH_TRY(reader.object([&](std::string_view key) -> Status {
        members.emplace_back(std::string(key), JsonValue());
        return read_value(reader, members.back().second);
      }));
      std::vector<std::string_view> keys;
      for (const auto& member : members) keys.push_back(member.first);
      std::sort(keys.begin(), keys.end());
      const auto twice = std::adjacent_find(keys.begin(), keys.end());
      if (twice != keys.end()) return reader.error(cat("duplicate key '", printable(*twice), "'"));
      out = std::move(members);
      return {};
    }
    default: {
      std::string text;
      return reader.read(text).ok() ? (out = std::move(text), Status()) : reader.skip();
    }
  }
}

}  // namespace

Result<JsonValue> JsonValue::parse(std::string_view text, JsonOptions options) {
  JsonReader reader(text, options);
  JsonValue value;
  DH_TRY(read_value(reader, value));
  DH_TRY(reader.finish());
  return value;
}

Result<JsonValue> JsonValue::read(JsonReader& reader) {
  JsonValue value;
  DH_TRY(read_value(reader, value));
  return value;
}

std::optional<bool> JsonValue::as_bool() const {
  if (const bool* v = std::get_if<bool>(&value_)) return *v;
  return std::nullopt;
}

std::optional<int64_t> JsonValue::as_int() const {
  if (const auto* v = std::get_if<int64_t>(&value_)) return *v;
  if (const auto* v = std::get_if<uint64_t>(&value_); v && *v <= INT64_MAX) {
    return static_cast<int64_t>(*v);
  }
  return std::nullopt;
}

std::optional<uint64_t> JsonValue::as_uint() const {
  if (const auto* v = std::get_if<uint64_t>(&value_)) return *v;
  if (const auto* v = std::get_if<int64_t>(&value_); v && *v >= 0) return static_cast<uint64_t>(*v);
  return std::nullopt;
}

std::optional<double> JsonValue::as_double() const {
  if (const auto* v = std::get_if<double>(&value_)) return *v;
  if (const auto* v = std::get_if<int64_t>(&value_)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<uint64_t>(&value_)) return static_cast<double>(*v);
  return std::nullopt;
}

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const auto& [name, value] : members()) {
    if (name == key) return &value;
  }
  return nullptr;
}

const JsonValue::Object& JsonValue::members() const {
  static const Object kEmpty;
  const Object* object = as_object();
  return object ? *object : kEmpty;
}

const JsonValue::Array& JsonValue::elements() const {
  static const Array kEmpty;
  const Array* array = as_array();
  return array ? *array : kEmpty;
}

std::string_view JsonValue::kind_name() const {
  static constexpr std::string_view kNames[] = {"null",   "boolean", "integer", "integer",
                                                "number", "string",  "array",   "object"};
  return kNames[value_.index()];
}

std::string to_json(const JsonValue& value, JsonWriter::Style style) {
  JsonWriter writer(style);
  writer.value(value);
  return writer.take();
}

}  // namespace downhaul

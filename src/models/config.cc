#include "models/config.h"

#include <charconv>
#include <cmath>

#include "base/file.h"
#include "base/strings.h"

namespace downhaul::models {
namespace {

constexpr int64_t kMaxSize = INT32_MAX;
// Deeper models exist only as attacks on a reader's time.
constexpr int64_t kMaxLayers = 4096;

std::string found(const JsonValue& value) {
  if (value.is_string()) return cat("'", printable(*value.as_string(), 60), "'");
  if (value.is_number() || value.is_bool()) return to_json(value, JsonWriter::Style::kCompact);
  return std::string(value.kind_name());
}

}  // namespace

Result<Config> Config::parse(std::string_view text, const std::string& path) {
  Config out;
  out.path_ = path;
  auto document = JsonValue::parse(text);
  const std::string place = cat("'", printable(path), "'");
  if (!document.ok()) return std::move(document).status().with_context(place);
  if (!document->is_object()) {
    return invalid_file(cat(place, ": expected a JSON object, found ", document->kind_name()));
  }
  out.document_ = *std::move(document);
  return out;
}

Result<Config> Config::read(const std::string& path) {
  DH_ASSIGN(const std::string text, read_text_file(path));
  return parse(text, path);
}

const JsonValue* Config::find(std::string_view key) const {
  const JsonValue* value = document_.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool Config::has(std::string_view key) const { return find(key) != nullptr; }

void Config::fail(std::string_view message) {
  if (status_.ok()) status_ = invalid_file(cat("'", printable(path_), "': ", message));
}

Setting Config::integer(std::initializer_list<std::string_view> keys, int64_t default_value,
                        int64_t low, int64_t high) {
  for (const std::string_view key : keys) {
    const JsonValue* value = find(key);
    if (value == nullptr) continue;
    const auto number = value->as_int();
    if (number && *number >= low && *number <= high) return {std::string(key), *number};
    fail(cat("key '", key, "': expected an integer from ", low, " to ", high, ", found ",
             found(*value)));
    return {std::string(key), default_value};
  }
  return {std::string(*keys.begin()), default_value};
}

Setting Config::size(std::initializer_list<std::string_view> keys, int64_t default_value) {
  return integer(keys, default_value, 1, kMaxSize);
}

Setting Config::layers(std::initializer_list<std::string_view> keys, int64_t default_value) {
  return integer(keys, default_value, 1, kMaxLayers);
}

double Config::positive_real(std::string_view key, double default_value) {
  const JsonValue* value = find(key);
  if (value == nullptr) return default_value;
  const auto number = value->as_double();
  if (number && std::isfinite(*number) && *number > 0 && *number <= 1) return *number;
  fail(cat("key '", key, "': expected a number above 0, at most 1, found ", found(*value)));
  return default_value;
}

bool Config::flag(std::string_view key, bool default_value) {
  const JsonValue* value = find(key);
  if (value == nullptr) return default_value;
  const auto flag = value->as_bool();
  if (!flag) fail(cat("key '", key, "': expected true or false, found ", found(*value)));
  return flag.value_or(default_value);
}

std::string Config::text(std::string_view key, std::string_view default_value) {
  const JsonValue* value = find(key);
  if (value == nullptr) return std::string(default_value);
  if (const std::string* text = value->as_string()) return *text;
  fail(cat("key '", key, "': expected a text, found ", found(*value)));
  return std::string(default_value);
}

std::vector<std::string> Config::texts(std::string_view key) {
  std::vector<std::string> out;
  const JsonValue* value = find(key);
  if (value == nullptr) return out;
  for (const JsonValue& item : value->elements()) {
    if (const std::string* text = item.as_string()) {
      out.push_back(*text);
    } else {
      fail(cat("key '", key, "': expected texts, found ", found(item)));
    }
  }
  if (!value->is_array()) fail(cat("key '", key, "': expected a list, found ", found(*value)));
  return out;
}

void Config::require_divides(const Setting& part, const Setting& whole) {
  if (whole.value % part.value == 0) return;
  fail(cat("key '", part.key, "': ", part.value, " does not divide ", whole.key, " (", whole.value,
           ")"));
}

std::vector<std::string> Config::labels() {
  const JsonValue* value = find("id2label");
  if (value == nullptr) return {};
  std::vector<std::string> out(value->members().size());
  std::vector<bool> seen(out.size());
  if (!value->is_object() || out.empty()) {
    fail(cat("key 'id2label': expected an object id -> label, found ", found(*value)));
    return {};
  }
  for (const auto& [id, label] : value->members()) {
    size_t number = 0;
    const auto r = std::from_chars(id.data(), id.data() + id.size(), number);
    if (r.ec != std::errc() || r.ptr != id.data() + id.size() || number >= out.size() ||
        seen[number] || !label.is_string()) {
      fail(cat("key 'id2label': expected ids from 0 without holes and texts, found '",
               printable(id, 60), "': ", found(label)));
      return {};
    }
    seen[number] = true;
    out[number] = *label.as_string();
  }
  return out;
}

Setting Config::num_labels() {
  const std::vector<std::string> names = labels();
  if (!names.empty()) return {"id2label", static_cast<int64_t>(names.size())};
  constexpr int64_t kDefaultLabels = 2;  // of every configuration class
  return size({"num_labels"}, kDefaultLabels);
}

}  // namespace downhaul::models

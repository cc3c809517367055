#include "dialects/edge/signature.h"

#include "formats/json/json.h"

namespace downhaul::edge {
namespace {

constexpr std::string_view kDict = "builtins.dict";
constexpr std::string_view kTuple = "builtins.tuple";

void write_leaf(JsonWriter& json) {
  json.begin_object();
  json.key("type").null();
  json.key("context").null();
  json.key("children_spec").begin_array().end_array();
  json.end_object();
}

/// The keys of a dictionary are JSON text inside its context.
void write_dict(const std::vector<std::string>& names, JsonWriter& json) {
  JsonWriter keys(JsonWriter::Style::kCompact);
  keys.value(names);
  json.begin_object();
  json.field("type", kDict);
  json.field("context", keys.take());
  json.key("children_spec").begin_array();
  for (size_t i = 0; i < names.size(); ++i) write_leaf(json);
  json.end_array();
  json.end_object();
}

template <typename WriteTree>
std::string spec(WriteTree&& write_tree) {
  JsonWriter json(JsonWriter::Style::kCompact);
  json.begin_array();
  json.value(1);  // version of the tree format
  write_tree(json);
  json.end_array();
  return json.take();
}

bool is_a(const JsonValue* tree, std::string_view type) {
  const JsonValue* found = tree == nullptr ? nullptr : tree->find("type");
  return found != nullptr && found->as_string() != nullptr && *found->as_string() == type;
}

/// The tree behind the version number.
const JsonValue* tree_of(const Result<JsonValue>& document) {
  if (!document.ok() || document->elements().size() != 2) return nullptr;
  return &document->elements()[1];
}

std::optional<std::vector<std::string>> keys_of(const JsonValue* dict, size_t count) {
  if (!is_a(dict, kDict)) return std::nullopt;
  const JsonValue* context = dict->find("context");
  if (context == nullptr || context->as_string() == nullptr) return std::nullopt;
  const auto keys = JsonValue::parse(*context->as_string());
  if (!keys.ok() || keys->elements().size() != count) return std::nullopt;
  std::vector<std::string> out;
  for (const JsonValue& key : keys->elements()) {
    if (key.as_string() == nullptr) return std::nullopt;
    out.push_back(*key.as_string());
  }
  return out;
}

const JsonValue* children(const JsonValue* tree) {
  return tree == nullptr ? nullptr : tree->find("children_spec");
}

}  // namespace

std::string encode_input_names(const std::vector<std::string>& names) {
  return spec([&](JsonWriter& json) {
    const auto begin_tuple = [&] {
      json.begin_object();
      json.field("type", kTuple);
      json.field("context", "null");
      json.key("children_spec").begin_array();
    };
    begin_tuple();  // (arguments, keywords)
    begin_tuple();
    json.end_array().end_object();
    write_dict(names, json);
    json.end_array().end_object();
  });
}

std::string encode_output_names(const std::vector<std::string>& names) {
  return spec([&](JsonWriter& json) { write_dict(names, json); });
}

std::optional<std::vector<std::string>> decode_input_names(std::string_view text, size_t count) {
  const auto document = JsonValue::parse(text);
  const JsonValue* parts = children(tree_of(document));
  if (parts == nullptr || parts->elements().size() != 2) return std::nullopt;
  const JsonValue* positional = children(&parts->elements()[0]);
  if (positional == nullptr || !positional->elements().empty()) return std::nullopt;
  return keys_of(&parts->elements()[1], count);
}

std::optional<std::vector<std::string>> decode_output_names(std::string_view text, size_t count) {
  const auto document = JsonValue::parse(text);
  return keys_of(tree_of(document), count);
}

}  // namespace downhaul::edge

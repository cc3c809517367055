#include "dialects/edge/signature.h"

#include <algorithm>
#include <map>
#include <memory>

#include "formats/json/json.h"

namespace downhaul::edge {
namespace {

constexpr std::string_view kDict = "builtins.dict";
constexpr std::string_view kTuple = "builtins.tuple";

using Symbols = std::map<std::string, SymbolPtr, std::less<>>;

bool is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_static(); });
}

/// Readers of trees pass over keys that they do not know.
void write_leaf(JsonWriter& json, const Shape* shape) {
  json.begin_object();
  json.key("type").null();
  json.key("context").null();
  json.key("children_spec").begin_array().end_array();
  if (shape != nullptr && !is_static(*shape)) {
    json.key("sizes").begin_array();
    for (const Dim& d : *shape) json.value(d.str());
    json.end_array();
  }
  json.end_object();
}

/// {"s0": [1, 8]}
void write_symbols(const std::vector<Shape>& shapes, JsonWriter& json) {
  Symbols symbols;
  for (const Shape& shape : shapes)
    for (const Dim& d : shape) d.collect_symbols(symbols);
  if (symbols.empty()) return;
  json.key("symbols").begin_object();
  for (const auto& [name, symbol] : symbols)
    json.key(name).begin_array().value(symbol->min).value(symbol->max).end_array();
  json.end_object();
}

/// The keys of a dictionary are JSON text inside its context.
void write_dict(const std::vector<std::string>& names, const std::vector<Shape>& shapes,
                JsonWriter& json) {
  JsonWriter keys(JsonWriter::Style::kCompact);
  keys.value(names);
  json.begin_object();
  json.field("type", kDict);
  json.field("context", keys.take());
  json.key("children_spec").begin_array();
  for (size_t i = 0; i < names.size(); ++i)
    write_leaf(json, i < shapes.size() ? &shapes[i] : nullptr);
  json.end_array();
  write_symbols(shapes, json);
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

/// The keywords of a call that has no positional arguments, or null.
const JsonValue* keywords_of(const Result<JsonValue>& document) {
  const JsonValue* parts = children(tree_of(document));
  if (parts == nullptr || parts->elements().size() != 2) return nullptr;
  const JsonValue* positional = children(&parts->elements()[0]);
  if (positional == nullptr || !positional->elements().empty()) return nullptr;
  return &parts->elements()[1];
}

/// What write_symbols wrote; nullopt when there is nothing, or something else.
std::optional<Symbols> read_symbols(const JsonValue* json) {
  if (json == nullptr) return std::nullopt;
  Symbols symbols;
  for (const auto& [name, bounds] : json->members()) {
    if (bounds.elements().size() != 2) return std::nullopt;
    const auto min = bounds.elements()[0].as_int();
    const auto max = bounds.elements()[1].as_int();
    if (!min || !max || *min < 0 || *max < *min) return std::nullopt;
    symbols[name] = std::make_shared<Symbol>(Symbol{.name = name, .min = *min, .max = *max});
  }
  return symbols;
}

}  // namespace

std::string encode_inputs(const std::vector<std::string>& names, const std::vector<Shape>& shapes) {
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
    write_dict(names, shapes, json);
    json.end_array().end_object();
  });
}

std::string encode_output_names(const std::vector<std::string>& names) {
  return spec([&](JsonWriter& json) { write_dict(names, {}, json); });
}

std::optional<std::vector<std::string>> decode_input_names(std::string_view text, size_t count) {
  const auto document = JsonValue::parse(text);
  return keys_of(keywords_of(document), count);
}

std::optional<std::vector<std::optional<Shape>>> decode_input_shapes(std::string_view text,
                                                                     size_t count) {
  const auto document = JsonValue::parse(text);
  const JsonValue* keywords = keywords_of(document);
  const JsonValue* leaves = children(keywords);
  if (leaves == nullptr || leaves->elements().size() != count) return std::nullopt;
  const std::optional<Symbols> symbols = read_symbols(keywords->find("symbols"));
  if (!symbols.has_value()) return std::nullopt;
  std::vector<std::optional<Shape>> shapes(count);
  for (size_t i = 0; i < count; ++i) {
    const JsonValue* sizes = leaves->elements()[i].find("sizes");
    if (sizes == nullptr) continue;
    Shape shape;
    for (const JsonValue& size : sizes->elements()) {
      const std::optional<Dim> d =
          size.as_string() == nullptr ? std::nullopt : parse_dim(*size.as_string(), *symbols);
      if (!d.has_value()) return std::nullopt;
      shape.push_back(*d);
    }
    shapes[i] = std::move(shape);
  }
  return shapes;
}

std::optional<std::vector<std::string>> decode_output_names(std::string_view text, size_t count) {
  const auto document = JsonValue::parse(text);
  return keys_of(tree_of(document), count);
}

}  // namespace downhaul::edge

#include "dialects/edge/node_names.h"

#include "formats/json/json.h"

namespace downhaul::edge {

std::string write_node_names(const NodeNames& names) {
  std::vector<std::vector<int64_t>> instructions(names.origins.size());
  for (const auto& [instruction, origins] : names.of_instruction) {
    for (const int origin : origins) {
      instructions[static_cast<size_t>(origin)].push_back(instruction);
    }
  }
  JsonWriter json(JsonWriter::Style::kCompact);
  json.begin_array();
  for (size_t i = 0; i < names.origins.size(); ++i) {
    json.begin_object();
    json.field("name", names.origins[i].name);
    json.field("module", names.origins[i].module_path);
    json.field("instructions", instructions[i]);
    json.end_object();
  }
  json.end_array();
  return json.take();
}

NodeNames read_node_names(std::string_view text) {
  const auto document = JsonValue::parse(text);
  if (!document.ok() || !document->is_array()) return {};
  NodeNames out;
  for (const JsonValue& entry : document->elements()) {
    const auto text_of = [&](std::string_view key) {
      const JsonValue* value = entry.find(key);
      const std::string* found = value != nullptr ? value->as_string() : nullptr;
      return found != nullptr ? *found : std::string();
    };
    const int index = static_cast<int>(out.origins.size());
    out.origins.push_back({text_of("name"), text_of("module")});
    const JsonValue* instructions = entry.find("instructions");
    if (instructions == nullptr) continue;
    for (const JsonValue& i : instructions->elements()) {
      const auto at = i.as_int();
      if (at && *at >= 0 && *at <= INT32_MAX) {
        out.of_instruction[static_cast<int>(*at)].push_back(index);
      }
    }
  }
  return out;
}

}  // namespace downhaul::edge

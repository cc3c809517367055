#include "report/json.h"

namespace downhaul {

void write_json(const DelegationReport& r, JsonWriter& json) {
  json.begin_object();
  json.field("delegate_call_sites", r.call_sites);
  if (!r.split.empty()) json.field("delegate_split_reason", r.split);
  json.field("kernel_calls_outside", r.kernel_calls);
  json.field("graph_nodes_outside", r.graph_nodes);
  json.field("graph_allocs", r.graph_allocs);
  json.field("graph_getitems", r.graph_getitems);
  json.field("nodes_inside_delegates", r.delegate_nodes);
  json.key("backends").begin_object();
  for (const auto& [backend, count] : r.backends) json.field(backend, count);
  json.end_object();
  json.key("outside").begin_array();
  for (const OutsideOperator& o : r.outside) {
    json.begin_object();
    json.field("operator", o.name);
    json.field("count", o.count);
    json.field("reason", o.reason);
    json.end_object();
  }
  json.end_array();
  json.key("inside").begin_object();
  for (const auto& [kind, count] : r.delegate_kinds) json.field(kind, count);
  json.end_object();
  json.key("outside_by_module").begin_object();
  for (const auto& [module, count] : r.outside_by_module) json.field(module, count);
  json.end_object();
  const auto share = [&](const char* key, double part, double whole) {
    json.key(key);
    if (whole > 0) {
      json.value(part / whole);
    } else {
      json.null();
    }
  };
  json.key("multiply_adds");
  json.value(r.multiply_adds);
  share("multiply_add_share_delegated", static_cast<double>(r.delegated_multiply_adds.value_or(0)),
        static_cast<double>(r.multiply_adds.value_or(0)));
  json.field("weight_bytes", r.weight_bytes);
  share("weight_byte_share_delegated", static_cast<double>(r.delegated_weight_bytes),
        static_cast<double>(r.weight_bytes));
  json.end_object();
}

void write_json(const FileSizeReport& r, JsonWriter& json) {
  json.begin_object();
  json.field("file_bytes", r.file_size);
  json.key("parts").begin_object();
  for (const SizePart& p : r.parts) json.field(p.name, p.bytes);
  json.end_object();
  json.field("duplicated_bytes", r.duplicated_bytes);
  json.key("duplicates").begin_array();
  for (const DuplicateBytes& d : r.duplicates) {
    json.begin_object();
    json.field("bytes", d.bytes);
    json.field("owners", d.owners);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

void write_json_types(const std::vector<Value*>& values, JsonWriter& json) {
  json.begin_array();
  for (const Value* v : values) {
    json.begin_object();
    json.field("name", v->name());
    json.field("type", v->type().str());
    json.end_object();
  }
  json.end_array();
}

}  // namespace downhaul

#pragma once

#include <vector>

#include "formats/json/json.h"
#include "ir/graph.h"
#include "report/delegation.h"
#include "report/size.h"

/// The reports as JSON objects, at the writer's current place.
namespace downhaul {

void write_json(const DelegationReport& report, JsonWriter& json);
void write_json(const FileSizeReport& report, JsonWriter& json);
/// [{"name": …, "type": "f32[1,3]"}, …]
void write_json_types(const std::vector<Value*>& values, JsonWriter& json);

}  // namespace downhaul

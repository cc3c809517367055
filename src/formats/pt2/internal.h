#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "formats/json/json.h"
#include "formats/pt2/pt2.h"

/// Steps of read_pt2, each in a file of its own.
namespace downhaul::pt2 {

/// What tensors' names lead to, whichever layout stored them.
using TensorTable = std::unordered_map<std::string, StoredTensor>;

/// A mapped JSON text whose pages are given back while it is read; `file` is null for text in
/// memory.
struct JsonText {
  std::string_view text;
  const MappedFile* file = nullptr;
};

/// One program from its JSON. Checks the schema version first. The graph is not yet verified.
Result<Program> read_program(const JsonText& json, std::vector<std::string>& warnings);

/// TensorMeta of a payload config, whose sizes are plain numbers.
Status read_tensor_meta(JsonReader& reader, TensorMeta& out);

/// Fills trees and user input and output names from the texts of the two specs.
/// `namedtuple_fields`: type name to field names.
Status read_trees(
    std::string_view in_spec, std::string_view out_spec,
    const std::unordered_map<std::string, std::vector<std::string>>& namedtuple_fields,
    Program& program);

/// Values are defined once and before use, outputs exist, every tensor has a TensorMeta, and the
/// signature agrees with the graph. Subgraphs too.
Status verify_graph(const Program& program);

/// Every parameter, buffer and constant of the signature is in the table, with the dtype and the
/// sizes that the graph states. Unused names become a warning.
Status verify_tensors(const Program& program, const TensorTable& tensors,
                      std::vector<std::string>& warnings);

}  // namespace downhaul::pt2

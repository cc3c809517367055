#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Names of a method's inputs and outputs, kept where the file has room for them: the specs of the
/// call's containers (ContainerMetadata), as JSON trees. A call by keyword has its names as keys.
namespace downhaul::edge {

/// The spec of a call that takes all of `names` as keywords.
std::string encode_input_names(const std::vector<std::string>& names);
/// The spec of a dictionary with the keys `names`.
std::string encode_output_names(const std::vector<std::string>& names);

/// The keys, in order, when `spec` is one of the above with `count` leaves; nullopt for anything
/// else, malformed text included (then the file keeps no names).
std::optional<std::vector<std::string>> decode_input_names(std::string_view spec, size_t count);
std::optional<std::vector<std::string>> decode_output_names(std::string_view spec, size_t count);

}  // namespace downhaul::edge

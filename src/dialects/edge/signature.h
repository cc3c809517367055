#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.h"

/// Names of a method's inputs and outputs, and the sizes of the inputs, kept where the file has
/// room for them: the specs of the call's containers (ContainerMetadata), as JSON trees. A call by
/// keyword has its names as keys.
namespace downhaul::edge {

/// The spec of a call that takes all of `names` as keywords. `shapes`, one for each name: those
/// that are not static are stated with the bounds of their symbols, since the file's tensors have
/// upper bounds only and cannot tell which sizes are the same.
std::string encode_inputs(const std::vector<std::string>& names, const std::vector<Shape>& shapes);
/// The spec of a dictionary with the keys `names`.
std::string encode_output_names(const std::vector<std::string>& names);

/// The keys, in order, when `spec` is one of the above with `count` leaves; nullopt for anything
/// else, malformed text included (then the file keeps no names).
std::optional<std::vector<std::string>> decode_input_names(std::string_view spec, size_t count);
/// The shapes that encode_inputs stated, nullopt for each that it did not. Symbols are shared
/// between them. Nullopt as a whole for anything else.
std::optional<std::vector<std::optional<Shape>>> decode_input_shapes(std::string_view spec,
                                                                     size_t count);
std::optional<std::vector<std::string>> decode_output_names(std::string_view spec, size_t count);

}  // namespace downhaul::edge

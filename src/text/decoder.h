#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/definition.h"

namespace downhaul::text {

/// The text of pieces, by the definition's decoder; without one they are joined by spaces.
std::string decode_pieces(const TokenizerDefinition& definition,
                          const std::vector<std::string_view>& pieces);

}  // namespace downhaul::text

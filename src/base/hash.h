#pragma once

#include <cstdint>
#include <string_view>

#include "base/file.h"

namespace downhaul {

/// 64 bits of a string of bytes, the same on every machine; reads at about the speed of memory.
/// Tells contents apart that differ by accident, not by design: not for security.
uint64_t hash_bytes(Bytes bytes, uint64_t seed = 0);
uint64_t hash_text(std::string_view text, uint64_t seed = 0);

}  // namespace downhaul

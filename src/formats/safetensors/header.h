#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "formats/safetensors/safetensors.h"

namespace downhaul::safetensors {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // as the reference implementation
constexpr std::string_view kMetadataKey = "__metadata__";

/// Bytes of a tensor; nullopt for a negative size, an overflow, or packed elements that do not end
/// on a byte.
std::optional<uint64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape);

}  // namespace downhaul::safetensors

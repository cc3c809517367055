#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace downhaul {

/// Bytes that a strided view needs of its storage, counted from the storage's first byte; 0 for a
/// view without elements. Sizes, strides and offset are in elements.
/// Errors: kInvalidFile for a negative number, unequal ranks, more than 64 dimensions or overflow.
Result<uint64_t> strided_extent(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                                int64_t storage_offset, uint32_t item_bytes);

}  // namespace downhaul

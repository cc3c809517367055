#pragma once

#include <cstdint>
#include <string>

namespace downhaul::ops {

/// The index along a dimension of `size` that element `i` of its padded form shows, counted from
/// where the dimension itself begins; -1 for the fill value. `mode` as in the operator pad.
int64_t pad_source_index(const std::string& mode, int64_t i, int64_t size);

}  // namespace downhaul::ops

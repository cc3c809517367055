#pragma once

#include <span>

#include "rewrite/rewrite.h"

/// The legalizing rewrites of the xnnpack target; each has tests/rewrites/<name>.dh.
namespace downhaul::xnnpack {

#define DH_REWRITE(symbol) extern const Rewrite symbol;
#include "targets/xnnpack/rewrites/rewrites.inc"
#undef DH_REWRITE

/// In the order of rewrites.inc.
std::span<const Rewrite* const> legalizing_rewrites();

/// (x - mean x)·rsqrt(var x + eps) over the last dimension, whose size must be static.
Value* normalized_last(Builder& b, Value* x, double eps);

}  // namespace downhaul::xnnpack

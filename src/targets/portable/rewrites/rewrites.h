#pragma once

#include <vector>

#include "rewrite/rewrite.h"

/// What a canonical graph needs so that every operator has a stock kernel.
namespace downhaul::portable {

#define DH_REWRITE(symbol) extern const Rewrite symbol;
#include "targets/portable/rewrites/rewrites.inc"
#undef DH_REWRITE

/// All of them, in the order of rewrites.inc.
std::vector<const Rewrite*> rewrites();

}  // namespace downhaul::portable

#pragma once

#include "ir/op.h"

/// Operators of programs over the tokens that are new, whose keys and values of earlier ones are
/// state. No file spells them; passes/decode makes them.
namespace downhaul::ops {

#define DH_OP(symbol) extern const OpDef symbol;
#include "ops/cached.inc"
#undef DH_OP

}  // namespace downhaul::ops

#pragma once

#include <span>
#include <string_view>

#include "ir/op.h"

/// All operators. `ops::kLinear` is the definition that src/ops/ holds once, in a file of its own
/// or with its family.
namespace downhaul {

namespace ops {
#define DH_OP(symbol) extern const OpDef symbol;
#include "ops/ops.inc"
#undef DH_OP
}  // namespace ops

/// Every operator, in the order of ops.inc.
std::span<const OpDef* const> all_ops();
/// By name, or null.
const OpDef* find_op(std::string_view name);

}  // namespace downhaul

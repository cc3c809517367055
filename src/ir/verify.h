#pragma once

#include "ir/graph.h"

namespace downhaul {

/// Checks what every graph must satisfy: each operand is defined before its use, use lists agree
/// with operands, names are unique, result types equal what `infer` says now, outputs exist.
/// Errors: kInvalidGraph naming the node, what was expected and what was found.
Status verify(const Graph& graph);

}  // namespace downhaul

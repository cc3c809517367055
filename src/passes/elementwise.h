#pragma once

#include "ir/graph.h"

namespace downhaul {

/// True for an operator that computes each element of its result from the elements at the same
/// place of its operands, which broadcast: its axes say so, and none of its attributes is a size.
bool is_elementwise(const Node& node);

}  // namespace downhaul

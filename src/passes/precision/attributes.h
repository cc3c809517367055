#pragma once

#include "ir/graph.h"

namespace downhaul {

/// Puts a node with changed attributes, and results inferred anew, in the place of `node`; results
/// keep their names.
Status replace_node(Graph& graph, Node& node, const NamedAttrs& changed);

}  // namespace downhaul

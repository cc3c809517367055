#include "passes/precision/attributes.h"

#include <string>
#include <vector>

namespace downhaul {

Status replace_node(Graph& graph, Node& node, const NamedAttrs& changed) {
  DH_ASSIGN(Node * replacement, graph.insert_like(&node, node, node.operands(), changed));
  std::vector<std::string> names;
  for (int r = 0; r < node.num_results(); ++r) {
    names.push_back(node.result(r)->name());
    graph.replace_all_uses(node.result(r), replacement->result(r));
  }
  graph.erase(&node);
  for (int r = 0; r < replacement->num_results(); ++r) {
    graph.rename(replacement->result(r), names[static_cast<size_t>(r)]);
  }
  return {};
}

}  // namespace downhaul

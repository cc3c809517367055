#include "targets/xnnpack/stages.h"

#include <algorithm>

namespace downhaul::xnnpack {

Stages assign_stages(const Graph& graph,
                     const std::unordered_map<const Node*, std::string>& refusals) {
  std::unordered_map<const Node*, int> stage;
  const auto is_outside = [&](const Node* n) { return refusals.contains(n); };
  int count = 1;
  for (const auto& node : graph.nodes()) {
    int s = 0;
    for (const Value* operand : node->operands()) {
      if (operand == nullptr || operand->producer() == nullptr) continue;
      const Node* producer = operand->producer();
      // Outside code of stage k runs before delegate k.
      const bool after_delegate = is_outside(node.get()) && !is_outside(producer);
      s = std::max(s, stage.at(producer) + (after_delegate ? 1 : 0));
    }
    stage[node.get()] = s;
    count = std::max(count, s + 1);
  }

  // Later is better only when no user is in the node's own stage.
  for (auto it = graph.nodes().rbegin(); it != graph.nodes().rend(); ++it) {
    const Node* node = it->get();
    if (is_outside(node)) continue;
    int latest = count - 1;
    bool is_output = false;
    for (int i = 0; i < node->num_results(); ++i) {
      is_output |= node->result(i)->num_output_uses() > 0;
      for (const Use& use : node->result(i)->uses()) {
        latest = std::min(latest, stage.at(use.node) - (is_outside(use.node) ? 1 : 0));
      }
    }
    if (!is_output) stage[node] = std::max(stage[node], latest);
  }

  Stages stages;
  stages.outside.resize(static_cast<size_t>(count));
  stages.delegate.resize(static_cast<size_t>(count));
  for (const auto& node : graph.nodes()) {
    const auto s = static_cast<size_t>(stage.at(node.get()));
    (is_outside(node.get()) ? stages.outside : stages.delegate)[s].push_back(node.get());
  }
  return stages;
}

}  // namespace downhaul::xnnpack

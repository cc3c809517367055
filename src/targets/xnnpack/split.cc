#include "targets/xnnpack/split.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "passes/values.h"

namespace downhaul::xnnpack {
namespace {

/// First and last place at which something is used.
struct Span {
  size_t first;
  size_t last;
};

/// What a cut before each place separates; one element more than there are nodes.
struct Sides {
  std::vector<int64_t> before;    ///< bytes of weights used before the cut
  std::vector<int64_t> after;     ///< bytes of weights used after it; a shared one counts in both
  std::vector<int64_t> crossing;  ///< bytes of results made before and used after
};

Sides sides_of(const std::vector<Node*>& nodes) {
  std::unordered_map<const Value*, Span> weights;
  std::unordered_map<const Value*, Span> results;
  for (size_t at = 0; at < nodes.size(); ++at) {
    const bool packs = nodes[at]->op().multiply_adds != nullptr;
    for (const Value* operand : nodes[at]->operands()) {
      if (operand == nullptr) continue;
      if (operand->is_constant() && packs) {
        weights.try_emplace(operand, Span{at, at}).first->second.last = at;
      } else if (const auto result = results.find(operand); result != results.end()) {
        result->second.last = at;
      }
    }
    for (int i = 0; i < nodes[at]->num_results(); ++i) {
      results[nodes[at]->result(i)] = {at, at};
    }
  }
  const size_t n = nodes.size() + 1;
  Sides sides{std::vector<int64_t>(n), std::vector<int64_t>(n), std::vector<int64_t>(n)};
  for (const auto& [weight, span] : weights) {
    const auto bytes = static_cast<int64_t>(weight->constant().num_bytes());
    for (size_t cut = span.first + 1; cut < n; ++cut) sides.before[cut] += bytes;
    for (size_t cut = 0; cut <= span.last; ++cut) sides.after[cut] += bytes;
  }
  for (const auto& [result, span] : results) {
    const int64_t bytes = max_bytes(result->type());
    for (size_t cut = span.first + 1; cut <= span.last; ++cut) sides.crossing[cut] += bytes;
  }
  return sides;
}

}  // namespace

size_t split_for_memory(const std::vector<Node*>& nodes, int64_t limit) {
  const Sides sides = sides_of(nodes);
  if (sides.after[0] <= limit) return nodes.size();
  size_t best = nodes.size();
  const auto cost = [&](size_t cut) {
    const int64_t peak = std::max(2 * sides.before[cut], sides.before[cut] + 2 * sides.after[cut]);
    return std::pair(peak, sides.crossing[cut]);
  };
  for (size_t cut = 1; cut < nodes.size(); ++cut) {
    if (cost(cut) < cost(best)) best = cut;
  }
  return best;
}

}  // namespace downhaul::xnnpack

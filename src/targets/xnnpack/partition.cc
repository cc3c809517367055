#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/strings.h"
#include "dialects/edge/call.h"
#include "dialects/xnn/emit.h"
#include "ops/ops.h"
#include "passes/values.h"
#include "targets/xnnpack/split.h"
#include "targets/xnnpack/stages.h"
#include "targets/xnnpack/xnnpack.h"

namespace downhaul {
namespace xnnpack {
namespace {

using Refusals = std::unordered_map<const Node*, std::string>;

/// A delegate of fewer elements than this, over all its results, costs more to call than to
/// compute: the call alone takes about as long as copying so many.
constexpr int64_t kWorthACall = 4096;

bool is_matrix_work(const Node& node) { return node.op().multiply_adds != nullptr; }

/// True for a delegate that kernels outside compute as fast.
bool is_trivial(const std::vector<Node*>& nodes) {
  int64_t elements = 0;
  for (const Node* node : nodes) {
    if (is_matrix_work(*node) || !edge::why_no_kernel(*node).empty()) return false;
    elements += max_bytes(node->result()->type()) / static_cast<int64_t>(sizeof(float));
  }
  return elements < kWorthACall;
}

/// Keeps what is not worth a delegate outside, when there is another delegate that is.
bool refuse_trivial(const Stages& stages, Refusals& refusals) {
  std::vector<const std::vector<Node*>*> trivial;
  bool any_worthy = false;
  for (const std::vector<Node*>& nodes : stages.delegate) {
    if (nodes.empty()) continue;
    if (is_trivial(nodes)) {
      trivial.push_back(&nodes);
    } else {
      any_worthy = true;
    }
  }
  if (!any_worthy) return false;
  for (const std::vector<Node*>* nodes : trivial) {
    for (const Node* node : *nodes) refusals[node] = "too little work for a delegate of its own";
  }
  return !trivial.empty();
}

/// A result that is only shown in another shape: a copy inside a delegate, whose results have
/// memory of their own, and a view outside.
bool is_free_outside(const Node& node, const Refusals& refusals) {
  if (!node.is(ops::kReshape) || !node.result()->type().is_static()) return false;
  const Value* x = node.operand(0);
  return x->producer() != nullptr && !refusals.contains(x->producer()) && x->has_one_use() &&
         node.result()->uses().empty();
}

/// Cuts delegates with many weights in two. What an earlier delegate needs is outside before it, so
/// a stage of its own with nothing outside follows each first half. Returns how many were cut.
int split_large(Stages& stages, int64_t weight_limit) {
  int cuts = 0;
  for (size_t s = 0; s < stages.delegate.size(); ++s) {
    const std::vector<Node*> nodes = stages.delegate[s];
    const auto cut =
        nodes.begin() + static_cast<std::ptrdiff_t>(split_for_memory(nodes, weight_limit));
    if (cut == nodes.end()) continue;
    const auto next = static_cast<std::ptrdiff_t>(s) + 1;
    stages.delegate[s].assign(nodes.begin(), cut);
    stages.delegate.emplace(stages.delegate.begin() + next, cut, nodes.end());
    stages.outside.emplace(stages.outside.begin() + next);
    ++s;
    ++cuts;
  }
  return cuts;
}

/// Moves the nodes of the graph into the order of the stages.
void reorder(Graph& graph, const Stages& stages) {
  for (size_t s = 0; s < stages.delegate.size(); ++s) {
    for (Node* node : stages.outside[s]) graph.move(node, nullptr);
    for (Node* node : stages.delegate[s]) graph.move(node, nullptr);
  }
}

Result<DelegatedRegion> make_region(const std::vector<Node*>& nodes) {
  DelegatedRegion region;
  region.nodes = nodes;
  const std::set<const Node*> inside(nodes.begin(), nodes.end());
  std::set<const Value*> seen;
  for (const Node* node : nodes) {
    for (Value* operand : node->operands()) {
      if (operand == nullptr || operand->is_constant() || inside.contains(operand->producer())) {
        continue;
      }
      if (seen.insert(operand).second) region.inputs.push_back(operand);
    }
    for (int i = 0; i < node->num_results(); ++i) {
      Value* result = node->result(i);
      const bool used_outside = std::any_of(result->uses().begin(), result->uses().end(),
                                            [&](const Use& u) { return !inside.contains(u.node); });
      if (used_outside || result->num_output_uses() > 0) region.outputs.push_back(result);
    }
  }
  DH_ASSIGN(XnnPayload payload, emit_xnn_payload(region.nodes, region.inputs, region.outputs));
  DH_ASSIGN(region.payload, write_xnn_payload(payload.graph));
  for (XnnNamedTensor& named : payload.named) {
    region.blobs.push_back({std::move(named.key), std::move(named.data)});
  }
  return region;
}

}  // namespace
}  // namespace xnnpack

Result<XnnpackPartition> partition_xnnpack(Graph& graph, int64_t weight_limit) {
  graph.remove_dead();
  xnnpack::Refusals refusals;
  for (const auto& node : graph.nodes()) {
    std::string reason = xnn_refusal(*node);
    if (reason.empty() && xnnpack::is_free_outside(*node, refusals)) {
      reason = "a view outside moves no data";
    }
    if (!reason.empty()) refusals[node.get()] = std::move(reason);
  }
  xnnpack::Stages stages = xnnpack::assign_stages(graph, refusals);
  while (xnnpack::refuse_trivial(stages, refusals)) {
    stages = xnnpack::assign_stages(graph, refusals);
  }
  XnnpackPartition partition;
  if (xnnpack::split_large(stages, weight_limit) > 0) {
    partition.split =
        cat("loading a delegate takes twice its weights: more than ", weight_limit >> 20,
            " MiB go into two, which take 4/3 at best; --single-delegate keeps one");
  }
  xnnpack::reorder(graph, stages);

  for (const std::vector<Node*>& nodes : stages.delegate) {
    if (nodes.empty()) continue;
    DH_ASSIGN(DelegatedRegion region, xnnpack::make_region(nodes));
    partition.regions.push_back(std::move(region));
  }
  for (const auto& node : graph.nodes()) {
    const auto found = refusals.find(node.get());
    if (found != refusals.end()) partition.outside.push_back({node.get(), found->second});
  }
  return partition;
}

}  // namespace downhaul

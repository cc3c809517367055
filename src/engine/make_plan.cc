#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "engine/fusion.h"
#include "engine/plan.h"
#include "engine/steps/steps.h"
#include "ops/cached.h"
#include "ops/ops.h"

namespace downhaul::engine {
namespace {

// A tensor above this is a mistake of the model or an attack: the planner's offsets stay far from
// overflow, and the message names the value instead of an allocation that failed.
constexpr int64_t kMaxTensorBytes = int64_t{1} << 40;

Status check_size(const Value* value) {
  const Sizes sizes = static_sizes(value->shape());
  const auto count = checked_num_elements(sizes);
  if (!count || *count > kMaxTensorBytes / static_cast<int64_t>(item_size(value->dtype()))) {
    return unsupported(
        cat(value->name(), ": ", describe(value->dtype(), sizes), " is too large to compute"));
  }
  return {};
}

/// No work: elements that someone may read from where they are.
bool is_view(const Node& node) {
  if (node.is(ops::kSlice)) return node.i("step") > 0;
  return node.is(ops::kReshape) || node.is(ops::kPermute) || node.is(ops::kExpand);
}

}  // namespace

Planner planner_of(const OpDef& op) {
  static const std::unordered_map<const OpDef*, Planner> kPlanners = {
#define DH_PLANNER(symbol, planner) {&ops::symbol, planner},
#include "engine/steps/steps.inc"
#undef DH_PLANNER
  };
  const auto found = kPlanners.find(&op);
  return found == kPlanners.end() ? nullptr : found->second;
}

Result<Plan> make_plan(const Graph& graph, Weights& weights, const PlanOptions& options) {
  for (const Value* input : graph.inputs()) DH_TRY(check_size(input));
  for (const auto& node : graph.nodes()) {
    for (int r = 0; r < node->num_results(); ++r) DH_TRY(check_size(node->result(r)));
  }
  PlanBuilder plan(graph, weights, options);
  std::unordered_set<const Node*> done;               // by a step of another node
  std::unordered_map<const Node*, Fusion> fused;      // by their last node
  std::unordered_map<const Node*, Fusion> expanding;  // by the convolution that reads them alone
  const auto plan_product = [&](Fusion fusion) {
    if (const auto expand = expanding.find(&fusion.root()); expand != expanding.end()) {
      plan_expanded_conv2d(plan, expand->second, fusion);
    } else if (const Node* next = depthwise_after(plan, fusion)) {
      expanding.emplace(next, std::move(fusion));
    } else {
      plan_fused(plan, fusion);
    }
  };
  for (const auto& owned : graph.nodes()) {
    const Node& node = *owned;
    if (!options.reference_only) {
      if (const auto last = fused.find(&node); last != fused.end()) {
        plan_product(std::move(last->second));
        continue;
      }
      if (done.contains(&node) || is_gate_of_conv2d(plan, node)) continue;
      if (is_fusion_root(plan, node)) {
        Fusion fusion = fuse_epilogue(plan, node, node.is(ops::kLinear), done);
        if (fusion.nodes.size() == 1) {
          plan_product(std::move(fusion));
          continue;
        }
        done.insert(fusion.nodes.begin(), fusion.nodes.end());
        const Node* last = fusion.nodes.back();
        fused.emplace(last, std::move(fusion));
        continue;
      }
    }
    if (is_view(node)) continue;
    const Planner planner = options.reference_only ? nullptr : planner_of(node.op());
    if (planner == nullptr || !planner(plan, node)) plan_reference(plan, node);
  }
  return plan.finish();
}

}  // namespace downhaul::engine

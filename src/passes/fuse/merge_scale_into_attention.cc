// attention(q · s, k · t, v) → attention(q, k, v) with scale · s · t.
#include <cmath>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  double factor = 1;
  Value* query = strip_scale(node.operand("query"), factor);
  Value* key = strip_scale(node.operand("key"), factor);
  if (query == node.operand("query") && key == node.operand("key")) return {};
  const Dim& depth = query->dim(query->rank() - 1);
  if (!node.has_attr("scale") && !depth.is_static()) return {};
  const double scale =
      node.has_attr("scale") ? node.f("scale") : 1 / std::sqrt(static_cast<double>(depth.value()));
  std::vector<Value*> operands = node.operands();
  operands[0] = query;
  operands[1] = key;
  return {b.like(node, operands, {{"scale", scale * factor}})};
}

}  // namespace

const Rewrite kMergeScaleIntoAttention = {
    .name = "merge_scale_into_attention",
    .root = &ops::kAttention,
    .apply = apply,
};

}  // namespace downhaul::rewrites

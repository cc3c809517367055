// linear(x, w, b) to one column whose weights are all f → sum(x) · f + b, a mean where f is 1 / K:
// how runtimes without reductions along the last dimension spell them
#include <cmath>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* x = node.operand("input");
  const Value* weight = node.operand("weight");
  Value* bias = node.operand("bias");
  if (weight->rank() != 2 || !(weight->dim(node.b("weight_transposed") ? 1 : 0) == Dim(1))) {
    return {};
  }
  const auto factor = splat_value(weight);
  // Without an input there is nothing to save, and constants fold better as they are.
  if (!factor || x->is_constant()) return {};
  const auto count = static_cast<double>(weight->constant().num_elements());
  const bool is_mean = std::abs(*factor * count - 1) <= 1e-6;
  Value* result = b.op(is_mean ? ops::kMean : ops::kSum, {x},
                       {{"dims", Ints{x->rank() - 1}}, {"keepdim", true}});
  if (!is_mean && *factor != 1) {
    result = b.op(ops::kMul, {result, b.scalar(x->dtype(), *factor)});
  }
  if (bias != nullptr) result = b.op(ops::kAdd, {result, bias});
  if (result == nullptr) return {};
  return {result};
}

}  // namespace

const Rewrite kLinearToSum = {
    .name = "linear_to_sum",
    .root = &ops::kLinear,
    .apply = apply,
};

}  // namespace downhaul::rewrites

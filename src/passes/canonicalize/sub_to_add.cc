// x - c → x + (-c) for a floating-point constant: sums of constants then merge.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* c = node.operand(1);
  if (!is_float(c->dtype()) || !is_small_constant(c) || node.operand(0)->is_constant()) return {};
  std::vector<double> values = to_doubles(c->constant());
  for (double& v : values) v = -v;
  return {b.op(ops::kAdd, {node.operand(0),
                           b.constant(from_doubles(c->dtype(), c->constant().sizes(), values))})};
}

}  // namespace

const Rewrite kSubToAdd = {
    .name = "sub_to_add",
    .root = &ops::kSub,
    .apply = apply,
};

}  // namespace downhaul::rewrites

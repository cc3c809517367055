// (x + c) + d → x + (c + d) and (x * c) * d → x * (c * d), where x + c has no other use.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  const bool is_mul = node.is(ops::kMul);
  if (!is_mul && !node.is(ops::kAdd)) return {};
  Value* inner = node.operand(0);
  if (!is_op(inner, node.op()) || !inner->has_one_use()) return {};
  Value* c = inner->producer()->operand(1);
  Value* d = node.operand(1);
  if (!is_small_constant(c) || !is_small_constant(d)) return {};
  if (c->constant().num_elements() != 1 && d->constant().num_elements() != 1 &&
      !(c->shape() == d->shape())) {
    return {};
  }
  Value* sum = b.op(node.op(), {c, d});
  return {b.op(node.op(), {inner->producer()->operand(0), sum})};
}

}  // namespace

const Rewrite kMergeConstantChain = {
    .name = "merge_constant_chain",
    .apply = apply,
};

}  // namespace downhaul::rewrites

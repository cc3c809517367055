// x ** 2 → x * x
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!is_splat(node.operand(1), 2) || !is_float(node.result()->dtype())) return {};
  return {b.op(ops::kMul, {node.operand(0), node.operand(0)})};
}

}  // namespace

const Rewrite kSquareToMul = {
    .name = "square_to_mul",
    .root = &ops::kPow,
    .apply = apply,
};

}  // namespace downhaul::rewrites

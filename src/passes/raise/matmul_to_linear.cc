// matmul(x, W) with a constant matrix W → linear; also when W is a permuted constant.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* w = node.operand(1);
  const Value* source = is_op(w, ops::kPermute) ? w->producer()->operand(0) : w;
  if (w->rank() != 2 || !source->is_constant() || node.b("transpose_self")) return {};
  return {b.op(ops::kLinear, {node.operand(0), w},
               {{"weight_transposed", !node.b("transpose_other")}})};
}

}  // namespace

const Rewrite kMatmulToLinear = {
    .name = "matmul_to_linear",
    .root = &ops::kMatmul,
    .apply = apply,
};

}  // namespace downhaul::rewrites

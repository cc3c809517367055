// channel_norm(x) → layer_norm of x with its channels last, and back.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* x = node.operand(0);
  if (!x->dim(1).is_static()) return {};
  const int64_t rank = x->rank();
  Ints last = {0};
  Ints back = {0, rank - 1};
  for (int64_t d = 2; d < rank; ++d) {
    last.push_back(d);
    back.push_back(d - 1);
  }
  last.push_back(1);
  Value* moved = b.op(ops::kPermute, {x}, {{"dims", last}});
  Value* norm = b.op(ops::kLayerNorm, {moved, node.operand("weight"), node.operand("bias")},
                     {{"normalized_shape", Ints{x->dim(1).value()}}, {"eps", node.f("eps")}});
  return {b.op(ops::kPermute, {norm}, {{"dims", back}})};
}

}  // namespace

const Rewrite kChannelNormToLayerNorm = {
    .name = "channel_norm_to_layer_norm",
    .root = &ops::kChannelNorm,
    .apply = apply,
};

}  // namespace downhaul::rewrites

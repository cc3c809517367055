// group_norm(x) → layer_norm of each group's channels and pixels, then γ and β per channel.
#include "ops/ops.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* x = node.operand("input");
  if (!is_f32(x) || !is_static(x)) return {};
  const Dim groups(node.i("num_groups"));
  const Dim width(product(x->shape(), 1, x->shape().size()).value() / groups.value());
  Value* y = normalized_last(b, reshape(b, x, {x->dim(0), groups, width}), node.f("eps"));
  y = reshape(b, y, x->shape());
  Shape per_channel(x->shape().size() - 1, Dim(1));
  per_channel[0] = x->dim(1);
  if (Value* gamma = node.operand("weight")) y = mul(b, y, reshape(b, gamma, per_channel));
  if (Value* beta = node.operand("bias")) y = add(b, y, reshape(b, beta, per_channel));
  return {y};
}

}  // namespace

const Rewrite kExpandGroupNorm = {
    .name = "xnn_expand_group_norm",
    .root = &ops::kGroupNorm,
    .apply = apply,
};

}  // namespace downhaul::xnnpack

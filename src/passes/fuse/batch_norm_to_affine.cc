// A batch_norm that no convolution took in → x · scale + shift, per channel.
#include "ops/ops.h"
#include "passes/fuse/batch_norm.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* x = node.operand("input");
  const auto affine = affine_of_batch_norm(node);
  if (!affine || x->rank() < 2) return {};
  Sizes sizes(static_cast<size_t>(x->rank() - 1), 1);
  sizes[0] = static_cast<int64_t>(affine->scale.size());
  Value* scale = b.constant(from_doubles(x->dtype(), sizes, affine->scale), "scale");
  Value* shift = b.constant(from_doubles(x->dtype(), sizes, affine->shift), "shift");
  return {b.op(ops::kAdd, {b.op(ops::kMul, {x, scale}), shift})};
}

}  // namespace

const Rewrite kBatchNormToAffine = {
    .name = "batch_norm_to_affine",
    .root = &ops::kBatchNorm,
    .apply = apply,
};

}  // namespace downhaul::rewrites

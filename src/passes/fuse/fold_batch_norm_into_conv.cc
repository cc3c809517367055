// conv2d(x, w, b) then batch_norm(γ, β, μ, σ²) → conv2d(x, w·s, (b - μ)·s + β), s = γ / sqrt(σ² +
// eps) per output channel. The same for conv_transpose2d, for linear on rank 2, and without bias.
// Only when nobody else uses the convolution.
#include "ops/ops.h"
#include "passes/fuse/batch_norm.h"
#include "passes/fuse/projection.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Node* projection = foldable_projection(node.operand("input"));
  // batch_norm's channels are dimension 1 whatever the layout of the producer.
  if (projection == nullptr || channel_axis(*projection) != 1) return {};
  const auto affine = affine_of_batch_norm(node);
  if (!affine) return {};
  return {fold_affine(*projection, affine->scale, affine->shift, b)};
}

}  // namespace

const Rewrite kFoldBatchNormIntoConv = {
    .name = "fold_batch_norm_into_conv",
    .root = &ops::kBatchNorm,
    .apply = apply,
};

}  // namespace downhaul::rewrites

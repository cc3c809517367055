// hardsigmoid(conv(x, w, b)) → clamp(conv(x, w/6, b/6 + 1/2), 0, 1): one node less, and the clamp
// is one that every target fuses. Not for a convolution with other uses.
#include "ops/ops.h"
#include "passes/fuse/projection.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

constexpr uint64_t kMaxScaledBytes = 4 << 20;

std::vector<Value*> apply(Node& node, Builder& b) {
  Node* projection = foldable_projection(node.operand(0));
  if (projection == nullptr) return {};
  const Value* weight = projection->operand(1);
  if (!weight->has_one_use() || weight->constant().num_bytes() > kMaxScaledBytes) return {};
  const auto channels = static_cast<size_t>(num_channels(*projection));
  Value* y = fold_affine(*projection, std::vector<double>(channels, 1.0 / 6),
                         std::vector<double>(channels, 0.5), b);
  return {b.op(ops::kClamp, {y}, {{"min", 0.0}, {"max", 1.0}})};
}

}  // namespace

const Rewrite kFoldHardsigmoidIntoConv = {
    .name = "fold_hardsigmoid_into_conv",
    .root = &ops::kHardsigmoid,
    .apply = apply,
};

}  // namespace downhaul::rewrites

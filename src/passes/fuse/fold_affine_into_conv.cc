// conv(x, w, b) · s → conv(x, w·s, b·s) and conv(x, w, b) + t → conv(x, w, b + t), for constants
// that are scalar or one per output channel; the same for conv_transpose2d and linear. Scaling
// copies the weight: only when no other node reads it and it is no table of many megabytes.
#include "ops/ops.h"
#include "passes/fuse/projection.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

constexpr uint64_t kMaxScaledBytes = 4 << 20;

std::vector<Value*> apply(Node& node, Builder& b) {
  const bool is_mul = node.is(ops::kMul);
  if (!is_mul && !node.is(ops::kAdd)) return {};
  Node* projection = foldable_projection(node.operand(0));
  if (projection == nullptr || !(node.operand(0)->type() == node.result()->type())) return {};
  const auto values =
      per_channel(node.operand(1), node.result()->type(), channel_axis(*projection));
  if (!values) return {};
  const Value* weight = projection->operand(1);
  if (is_mul && (!weight->has_one_use() || weight->constant().num_bytes() > kMaxScaledBytes)) {
    return {};
  }
  const std::vector<double> none(values->size(), is_mul ? 0 : 1);
  return {fold_affine(*projection, is_mul ? *values : none, is_mul ? none : *values, b)};
}

}  // namespace

const Rewrite kFoldAffineIntoConv = {
    .name = "fold_affine_into_conv",
    .apply = apply,
};

}  // namespace downhaul::rewrites

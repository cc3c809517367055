// conv2d(upsample_bilinear2d(x), w, b) → upsample_bilinear2d(conv2d(x, w, b)) for a kernel of one
// pixel: both are linear, one along the channels, the other along height and width, and the weights
// of a result pixel sum to 1, so the bias stays as it is. Fewer pixels are projected, and no more
// channels than before are resized.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

bool is_pointwise(const Node& conv) {
  const Value* weight = conv.operand("weight");
  const Value* bias = conv.operand("bias");
  if (conv.i("groups") != 1 || conv.ints("stride") != Ints{1, 1}) return false;
  if (conv.ints("padding") != Ints{0, 0, 0, 0}) return false;
  if (!weight->is_constant() || (bias != nullptr && !bias->is_constant())) return false;
  // One pixel: one weight per channel and output.
  const size_t c = conv.s("layout") == "nhwc" ? 3 : 1;
  const Dim& in = conv.operand("input")->shape()[c];
  const Dim& out = conv.result()->shape()[c];
  if (!in.is_static() || !out.is_static() || out.value() > in.value()) return false;
  return weight->constant().num_elements() == in.value() * out.value();
}

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* resized = node.operand("input");
  if (!is_op(resized, ops::kUpsampleBilinear2d) || !resized->has_one_use()) return {};
  const Node& upsample = *resized->producer();
  if (upsample.s("layout") != node.s("layout") || !is_pointwise(node)) return {};
  const int64_t h = node.s("layout") == "nhwc" ? 1 : 2;
  Value* x = upsample.operand(0);
  for (int64_t d = h; d < h + 2; ++d) {
    if (!x->dim(d).is_static() || x->dim(d).value() > resized->dim(d).value()) return {};
  }
  std::vector<Value*> operands = node.operands();
  operands[0] = x;
  return {b.like(upsample, {b.like(node, operands)})};
}

}  // namespace

const Rewrite kProjectBeforeUpsample = {
    .name = "project_before_upsample",
    .root = &ops::kConv2d,
    .apply = apply,
};

}  // namespace downhaul::rewrites

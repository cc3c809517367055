// conv2d(pad(x, zeros at the image's borders)) → conv2d with that padding.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* padded = node.operand(0);
  if (!is_op(padded, ops::kPad) || !padded->has_one_use()) return {};
  const Node& pad = *padded->producer();
  if (pad.s("mode") != "constant" || pad.f("value") != 0) return {};
  const size_t h = node.s("layout") == "nhwc" ? 1 : 2;
  Ints padding = node.ints("padding");
  for (size_t d = 0; d < 4; ++d) {
    const int64_t before = pad.ints("before")[d];
    const int64_t after = pad.ints("after")[d];
    if (d != h && d != h + 1) {
      if (before != 0 || after != 0) return {};
      continue;
    }
    if (before < 0 || after < 0) return {};
    padding[d - h] += before;
    padding[d - h + 2] += after;
  }
  std::vector<Value*> operands = node.operands();
  operands[0] = pad.operand(0);
  return {b.like(node, operands, {{"padding", padding}})};
}

}  // namespace

const Rewrite kFoldPadIntoConv = {
    .name = "fold_pad_into_conv",
    .root = &ops::kConv2d,
    .apply = apply,
};

}  // namespace downhaul::rewrites

// adaptive_avg_pool2d to [1,1] → mean over height and width; to a divisor of the size → avg_pool2d.
// One form for what programs spell in two ways.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* x = node.operand(0);
  const Ints& size = node.ints("output_size");
  const bool nhwc = node.s("layout") == "nhwc";
  const int64_t h = nhwc ? 1 : 2;
  if (size == Ints{1, 1}) {
    return {b.op(ops::kMean, {x}, {{"dims", Ints{h, h + 1}}, {"keepdim", true}})};
  }
  Ints kernel;
  for (size_t i = 0; i < 2; ++i) {
    const Dim& in = x->dim(h + static_cast<int64_t>(i));
    if (!in.is_static() || size[i] == 0 || in.value() % size[i] != 0) return {};
    kernel.push_back(in.value() / size[i]);
  }
  if (kernel == Ints{1, 1}) return {x};
  return {b.op(ops::kAvgPool2d, {x},
               {{"kernel", kernel}, {"stride", kernel}, {"layout", node.s("layout")}})};
}

}  // namespace

const Rewrite kAdaptiveAvgPoolToMean = {
    .name = "adaptive_avg_pool_to_mean",
    .root = &ops::kAdaptiveAvgPool2d,
    .apply = apply,
};

}  // namespace downhaul::rewrites

// Poolings, and images that stay outside.
#include "dialects/xnn/emit.h"
#include "ops/ops.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

// adaptive_avg_pool2d whose bins are all alike → avg_pool2d; to the size it has → nothing.
const Rewrite kAdaptiveToAvgPool = {
    .name = "xnn_adaptive_to_avg_pool",
    .root = &ops::kAdaptiveAvgPool2d,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      const Ints& out = node.ints("output_size");
      if (!is_f32(x) || !is_static(x) || (out[0] == 1 && out[1] == 1)) return {};
      const int64_t first = node.s("layout") == "nhwc" ? 1 : 2;
      const int64_t height = x->dim(first).value();
      const int64_t width = x->dim(first + 1).value();
      if (height == out[0] && width == out[1]) return {x};
      if (height % out[0] != 0 || width % out[1] != 0) return {};
      const Ints window = {height / out[0], width / out[1]};
      return {b.op(ops::kAvgPool2d, {x},
                   {{"kernel", window}, {"stride", window}, {"layout", node.s("layout")}})};
    },
};

// An average that counts its padding: zeros are padded first.
const Rewrite kPadBeforeAvgPool = {
    .name = "xnn_pad_before_avg_pool",
    .root = &ops::kAvgPool2d,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      const Ints& padding = node.ints("padding");
      if (!is_f32(x) || !node.b("count_include_pad") || padding == Ints{0, 0, 0, 0}) return {};
      // What ceil_mode reaches over is not counted, and that depends on where the padding ends.
      if (node.b("ceil_mode")) return {};
      const size_t first = node.s("layout") == "nhwc" ? 1 : 2;
      Ints before(4, 0);
      Ints after(4, 0);
      before[first] = padding[0];
      before[first + 1] = padding[1];
      after[first] = padding[2];
      after[first + 1] = padding[3];
      Value* padded = b.op(ops::kPad, {x}, {{"before", before}, {"after", after}});
      return {b.like(node, {padded}, {{"padding", Ints{0, 0, 0, 0}}})};
    },
};

// A channels-last image operator that no payload node computes goes back to NCHW: the kernels
// outside take that.
const Rewrite kRefusedImageToNchw = {
    .name = "xnn_refused_image_to_nchw",
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      if (node.schema().find("layout") == nullptr || node.s("layout") != "nhwc") return {};
      if (xnn_refusal(node).empty()) return {};
      std::vector<Value*> operands = node.operands();
      operands[0] = permute(b, operands[0], {0, 3, 1, 2});
      Value* y = b.like(node, operands, {{"layout", std::string("nchw")}});
      return {permute(b, y, {0, 2, 3, 1})};
    },
};

}  // namespace downhaul::xnnpack

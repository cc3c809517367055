// Poolings, and images that stay outside.
#include "dialects/xnn/emit.h"
#include "ops/ops.h"
#include "passes/values.h"
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

// An enlarged image that leaves channels-last, [N, H, W, C] → [N, C, H, W]: the width is resized
// first, [N·h, 1, W, C], then the few rows there are change their layout, and at last the height is
// resized with whole rows for channels, [N·C, H, 1, W]. Bilinear weights are products, so the
// result is the same.
const Rewrite kPermuteBetweenResizes = {
    .name = "xnn_permute_between_resizes",
    .root = &ops::kPermute,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* resized = node.operand(0);
      if (node.ints("dims") != Ints{0, 3, 1, 2} || !is_op(resized, ops::kUpsampleBilinear2d)) {
        return {};
      }
      const Node& upsample = *resized->producer();
      Value* x = upsample.operand(0);
      if (!is_f32(x) || !is_static(x) || upsample.s("layout") != "nhwc") return {};
      if (!resized->has_one_use() || !xnn_refusal(upsample).empty()) return {};
      const int64_t rows = x->dim(1).value();
      const int64_t height = resized->dim(1).value();
      const int64_t width = resized->dim(2).value();
      const int64_t channels = x->dim(3).value();
      // The rows are the vectors of the second resize, as the channels are of the first.
      if (rows >= height || width < channels) return {};
      const auto resize = [&](Value* image, int64_t h, int64_t w, const char* scale) {
        NamedAttrs attrs = {{"output_size", Ints{h, w}},
                            {"align_corners", upsample.b("align_corners")},
                            {"layout", std::string("nhwc")}};
        if (upsample.has_attr(scale)) attrs.push_back({scale, upsample.f(scale)});
        return b.op(ops::kUpsampleBilinear2d, {image}, attrs);
      };
      const Dim& images = node.result()->dim(0);
      // Rows as images of their own: a neighbour with weight 0 would pass on its NaN.
      x = reshape(b, x, {images * Dim(rows), Dim(1), x->dim(2), Dim(channels)});
      x = reshape(b, resize(x, 1, width, "scale_w"),
                  {images, Dim(rows), Dim(width), Dim(channels)});
      x = reshape(b, permute(b, x, {0, 3, 1, 2}),
                  {images * Dim(channels), Dim(rows), Dim(1), Dim(width)});
      return {reshape(b, resize(x, height, 1, "scale_h"), node.result()->shape())};
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

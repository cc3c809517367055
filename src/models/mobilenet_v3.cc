// torchvision's MobileNetV3, small and large, and the LR-ASPP segmenter on top of the large one.
#include <span>

#include "base/strings.h"
#include "models/vision.h"

namespace downhaul::models {
namespace {

constexpr double kBackboneEps = 1e-3;

struct Block {
  int64_t kernel;
  bool squeeze;  // squeeze-and-excitation
  Act act;
  int64_t stride;
};
constexpr Block kLarge[] = {
    {3, false, Act::kRelu, 1},      {3, false, Act::kRelu, 2},      {3, false, Act::kRelu, 1},
    {5, true, Act::kRelu, 2},       {5, true, Act::kRelu, 1},       {5, true, Act::kRelu, 1},
    {3, false, Act::kHardswish, 2}, {3, false, Act::kHardswish, 1}, {3, false, Act::kHardswish, 1},
    {3, false, Act::kHardswish, 1}, {3, true, Act::kHardswish, 1},  {3, true, Act::kHardswish, 1},
    {5, true, Act::kHardswish, 2},  {5, true, Act::kHardswish, 1},  {5, true, Act::kHardswish, 1}};
constexpr Block kSmall[] = {
    {3, true, Act::kRelu, 2},      {3, false, Act::kRelu, 2},     {3, false, Act::kRelu, 1},
    {5, true, Act::kHardswish, 2}, {5, true, Act::kHardswish, 1}, {5, true, Act::kHardswish, 1},
    {5, true, Act::kHardswish, 1}, {5, true, Act::kHardswish, 1}, {5, true, Act::kHardswish, 2},
    {5, true, Act::kHardswish, 1}, {5, true, Act::kHardswish, 1}};

Value* conv_norm(Net& net, Value* x, const std::string& at, const ConvForm& form, Act a,
                 double eps = kBackboneEps) {
  return act(net, batch_norm(net, conv(net, x, at + ".0", form), at + ".1", eps), a);
}

Value* squeeze_and_excite(Net& net, Value* x, const std::string& at) {
  net.enter(at + ".avgpool");
  Value* s = global_average(net, x);
  s = net.relu(conv(net, s, at + ".fc1", {.bias = true}));
  s = conv(net, s, at + ".fc2", {.bias = true});
  s = net.op(ops::kHardsigmoid, {s});
  net.enter(at);
  return net.mul(s, x);
}

/// `dilation` above 1 takes the place of the stride.
Value* block(Net& net, Value* x, const std::string& at, const Block& b, bool expands,
             int64_t dilation) {
  Value* y = x;
  int part = 0;
  const auto next = [&] { return cat(at, ".block.", part++); };
  if (expands) y = conv_norm(net, y, next(), {}, b.act);
  const ConvForm depthwise{.kernel = b.kernel,
                           .stride = dilation > 1 ? 1 : b.stride,
                           .dilation = dilation,
                           .depthwise = true};
  y = conv_norm(net, y, next(), depthwise, b.act);
  if (b.squeeze) y = squeeze_and_excite(net, y, next());
  y = conv_norm(net, y, next(), {}, Act::kNone);
  const bool residual = b.stride == 1 && x != nullptr && y != nullptr && x->dim(1) == y->dim(1);
  net.enter(at);
  return residual ? net.add(y, x) : y;
}

struct Features {
  Value* high = nullptr;
  Value* low = nullptr;  // where the resolution is an eighth
};

/// `prefix`: "features." or "backbone.". The last `dilated` blocks keep the resolution.
Features features(Net& net, Value* x, const std::string& prefix, std::span<const Block> blocks,
                  size_t dilated) {
  constexpr size_t kLowBlock = 4;
  Features out;
  x = conv_norm(net, x, prefix + "0", {.kernel = 3, .stride = 2}, Act::kHardswish);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int64_t dilation = i + dilated >= blocks.size() ? 2 : 1;
    x = block(net, x, cat(prefix, i + 1), blocks[i], i > 0, dilation);
    if (i + 1 == kLowBlock) out.low = x;
  }
  out.high = conv_norm(net, x, cat(prefix, blocks.size() + 1), {}, Act::kHardswish);
  return out;
}

Value* resized(Net& net, Value* x, const Value* like) {
  if (x == nullptr || like == nullptr) return nullptr;
  return net.op(ops::kUpsampleBilinear2d, {x},
                {{"output_size", Ints{like->dim(2).value(), like->dim(3).value()}}});
}

}  // namespace

Status build_mobilenet_v3(Job& job) {
  Net& net = job.net;
  constexpr int64_t kSide = 224;
  job.out.task = "classification";
  DH_ASSIGN(Value * x, image_input(job, kSide, "x"));
  const bool small = job.out.family == "mobilenet_v3_small";
  const Features f = features(net, x, "features.", small ? std::span<const Block>(kSmall) : kLarge,
                              /*dilated=*/0);
  Value* y = dense(net, pooled(net, f.high), "classifier.0");
  y = dense(net, act(net, y, Act::kHardswish), "classifier.3");
  return job.finish({y}, {"logits"});
}

Status build_lraspp(Job& job) {
  Net& net = job.net;
  constexpr int64_t kSide = 520;
  constexpr size_t kDilatedBlocks = 3;
  job.out.task = "segmentation";
  DH_ASSIGN(Value * image, image_input(job, kSide, "image"));
  const Features f = features(net, image, "backbone.", kLarge, kDilatedBlocks);
  Value* x = conv_norm(net, f.high, "classifier.cbr", {}, Act::kRelu, kTorchEps);
  net.enter("classifier.scale.0");
  Value* scale = conv(net, global_average(net, f.high), "classifier.scale.1", {});
  scale = net.op(ops::kSigmoid, {scale});
  net.enter("classifier");
  x = resized(net, net.mul(x, scale), f.low);
  Value* low = conv(net, f.low, "classifier.low_classifier", {.bias = true});
  x = conv(net, x, "classifier.high_classifier", {.bias = true});
  net.enter("classifier");
  x = net.add(low, x);
  net.enter("");
  return job.finish({resized(net, x, image)}, {"out"});
}

}  // namespace downhaul::models

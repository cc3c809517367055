// torchvision's MobileNetV2: inverted residual blocks, ReLU6.
#include "base/strings.h"
#include "models/vision.h"

namespace downhaul::models {
namespace {

struct Stage {
  int blocks;
  int64_t stride;  // of the first block
};
constexpr Stage kStages[] = {{1, 1}, {2, 2}, {3, 2}, {4, 2}, {3, 1}, {3, 2}, {1, 1}};

Value* conv_norm(Net& net, Value* x, const std::string& conv_name, const std::string& norm_name,
                 const ConvForm& form, Act a) {
  return act(net, batch_norm(net, conv(net, x, conv_name, form), norm_name, kTorchEps), a);
}

/// Expansion (not in the first block), depthwise convolution, projection.
Value* block(Net& net, Value* x, const std::string& at, int64_t stride, bool expands) {
  Value* y = x;
  int part = 0;
  if (expands) {
    y = conv_norm(net, y, cat(at, ".conv.0.0"), cat(at, ".conv.0.1"), {}, Act::kRelu6);
    ++part;
  }
  const ConvForm depthwise{.kernel = 3, .stride = stride, .depthwise = true};
  y = conv_norm(net, y, cat(at, ".conv.", part, ".0"), cat(at, ".conv.", part, ".1"), depthwise,
                Act::kRelu6);
  y = conv_norm(net, y, cat(at, ".conv.", part + 1), cat(at, ".conv.", part + 2), {}, Act::kNone);
  const bool residual = stride == 1 && x != nullptr && y != nullptr && x->dim(1) == y->dim(1);
  net.enter(at);
  return residual ? net.add(x, y) : y;
}

}  // namespace

Status build_mobilenet_v2(Job& job) {
  Net& net = job.net;
  constexpr int64_t kSide = 224;
  job.out.task = "classification";
  DH_ASSIGN(Value * x, image_input(job, kSide, "x"));
  x = conv_norm(net, x, "features.0.0", "features.0.1", {.kernel = 3, .stride = 2}, Act::kRelu6);
  int index = 1;
  for (const Stage& stage : kStages) {
    for (int i = 0; i < stage.blocks; ++i, ++index) {
      x = block(net, x, cat("features.", index), i == 0 ? stage.stride : 1, index > 1);
    }
  }
  x = conv_norm(net, x, cat("features.", index, ".0"), cat("features.", index, ".1"), {},
                Act::kRelu6);
  return job.finish({dense(net, pooled(net, x), "classifier.1")}, {"logits"});
}

}  // namespace downhaul::models

// torchvision's ResNets; their groups and widths are in the weights' shapes, so ResNeXt and wide
// ones are the same code.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/strings.h"
#include "models/vision.h"

namespace downhaul::models {
namespace {

struct Depth {
  std::string_view id;
  std::array<int64_t, 4> blocks;
  bool bottleneck;
};
constexpr Depth kDepths[] = {{"resnet18", {2, 2, 2, 2}, false},
                             {"resnet34", {3, 4, 6, 3}, false},
                             {"resnet50", {3, 4, 6, 3}, true},
                             {"resnet101", {3, 4, 23, 3}, true},
                             {"resnet152", {3, 8, 36, 3}, true}};

Value* conv_norm(Net& net, Value* x, const std::string& conv_name, const std::string& norm_name,
                 const ConvForm& form) {
  return batch_norm(net, conv(net, x, conv_name, form), norm_name, kTorchEps);
}

Value* block(Net& net, Value* x, const std::string& at, int64_t stride, bool bottleneck) {
  const auto step = [&](Value* v, int n, int64_t kernel, int64_t s) {
    return conv_norm(net, v, cat(at, ".conv", n), cat(at, ".bn", n),
                     {.kernel = kernel, .stride = s});
  };
  Value* y = nullptr;
  if (bottleneck) {
    y = net.relu(step(x, 1, 1, 1));
    y = net.relu(step(y, 2, 3, stride));
    y = step(y, 3, 1, 1);
  } else {
    y = net.relu(step(x, 1, 3, stride));
    y = step(y, 2, 3, 1);
  }
  // A block that changes the shape has a convolution beside it.
  const std::string beside = at + ".downsample.0";
  const bool changes = x != nullptr && y != nullptr && (stride != 1 || x->dim(1) != y->dim(1));
  if (changes || net.weights().has(beside + ".weight")) {
    x = conv_norm(net, x, beside, at + ".downsample.1", {.stride = stride});
  }
  net.enter(at);
  return net.relu(net.add(y, x));
}

/// How many blocks the weights have: one more than the last, so that a hole is found missing.
int64_t stored_blocks(const Weights& weights, size_t layer) {
  constexpr int64_t kMost = 64;
  int64_t count = 0;
  for (int64_t i = 0; i < kMost; ++i) {
    if (weights.has(cat("layer", layer, ".", i, ".conv1.weight"))) count = i + 1;
  }
  return count;
}

}  // namespace

Status build_resnet(Job& job) {
  Net& net = job.net;
  constexpr int64_t kSide = 224;
  const Depth* depth = &kDepths[0];
  for (const Depth& d : kDepths) {
    if (d.id == job.out.family) depth = &d;
  }
  job.out.task = "classification";
  DH_ASSIGN(Value * x, image_input(job, kSide, "x"));
  x = net.relu(conv_norm(net, x, "conv1", "bn1", {.kernel = 7, .stride = 2}));
  net.enter("maxpool");
  x = net.op(ops::kMaxPool2d, {x},
             {{"kernel", Ints{3, 3}}, {"stride", Ints{2, 2}}, {"padding", Ints{1, 1, 1, 1}}});
  for (size_t layer = 0; layer < depth->blocks.size(); ++layer) {
    int64_t blocks = stored_blocks(net.weights(), layer + 1);
    if (blocks != depth->blocks[layer]) {
      job.out.warnings.push_back(cat("layer", layer + 1, " has ", blocks, " blocks, ",
                                     job.out.family, " usually has ", depth->blocks[layer]));
      blocks = std::max<int64_t>(blocks, 1);
    }
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t stride = i == 0 && layer > 0 ? 2 : 1;
      x = block(net, x, cat("layer", layer + 1, ".", i), stride, depth->bottleneck);
    }
  }
  return job.finish({dense(net, pooled(net, x), "fc")}, {"logits"});
}

}  // namespace downhaul::models

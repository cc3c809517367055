#pragma once

#include <string>

#include "models/family.h"

/// What the image models share: convolutions with their normalisation, whose numbers of channels
/// come from the weights, so that narrower and wider forms of an architecture need no option.
namespace downhaul::models {

enum class Act { kNone, kRelu, kRelu6, kHardswish };

struct ConvForm {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  bool depthwise = false;
  bool bias = false;
};
/// Padded so that a stride of 1 keeps the size. Groups are what the weight's shape says.
Value* conv(Net& net, Value* x, const std::string& module, const ConvForm& form);
Value* batch_norm(Net& net, Value* x, const std::string& module, double eps);
Value* act(Net& net, Value* x, Act act);

constexpr double kTorchEps = 1e-5;  // of a batch norm that says nothing else

/// f32 [batch, 3, height, width], by default `side` x `side`.
/// The head of the task in `job.out.task`, set before, is taken as no choice at all.
/// Errors: kInvalidArgument for sizes out of range, or options of text models.
Result<Value*> image_input(Job& job, int64_t side, std::string_view name);
/// Mean over each channel, [batch, channels, 1, 1].
Value* global_average(Net& net, Value* x);
/// The same as [batch, channels].
Value* pooled(Net& net, Value* x);
/// A linear layer as wide as its weight.
Value* dense(Net& net, Value* x, const std::string& module);

}  // namespace downhaul::models

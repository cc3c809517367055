#include "dialects/xnn/spelling.h"
#include "ops/ops.h"

namespace downhaul::xnn {
namespace {

bool slopes_on_last_axis(const Node& node) {
  const Value* slope = node.operand(1);
  return num_elements(slope->shape()) == Dim(1) || node.operand(0)->rank() == 2;
}

// Rows are tried in order: the more special spelling of an operator comes first.
constexpr OneToOne kOneToOne[] = {
    {"abs(self)", "XNNAbs(self)"},
    {"ceil(self)", "XNNCeiling(self)"},
    {"cos(self)", "XNNCos(self)"},
    {"exp(self)", "XNNExp(self)"},
    {"floor(self)", "XNNFloor(self)"},
    {"log(self)", "XNNLog(self)"},
    {"neg(self)", "XNNNegate(self)"},
    {"rsqrt(self)", "XNNReciprocalSquareRoot(self)"},
    {"sin(self)", "XNNSin(self)"},
    {"sqrt(self)", "XNNSquareRoot(self)"},
    {"tanh(self)", "XNNTanh(self)"},
    {"elu(self, alpha=$alpha)", "XNNELU(self, alpha=$alpha)"},
    {"gelu(self, approximate=none)", "XNNGelu(self)", nullptr,
     "the runtime's gelu is the erf form"},
    {"hardswish(self)", "XNNHardswish(self)"},
    {"leaky_relu(self, negative_slope=$alpha)", "XNNLeakyReLU(self, alpha=$alpha)"},
    {"prelu(self, weight)", "XNNPReLU(self, weight)", slopes_on_last_axis,
     "the slopes of a prelu lie along the last axis"},
    {"sigmoid(self)", "XNNSigmoid(self)"},
    {"softmax(self, dim=last)", "XNNSoftmax(self)", nullptr,
     "the runtime's softmax takes the last axis"},
    {"add(self, other)", "XNNAdd(self, other)"},
    {"div(self, other)", "XNNDiv(self, other)"},
    {"maximum(self, other)", "XNNMaximum(self, other)"},
    {"minimum(self, other)", "XNNMinimum(self, other)"},
    {"mul(self, self)", "XNNSquare(self)"},
    {"mul(self, other)", "XNNMultiply(self, other)"},
    {"sub(self, other)", "XNNSubtract(self, other)"},
};

constexpr Functions kFunctions[] = {
    {&ops::kLinear, refuse_linear, emit_linear},
    {&ops::kMatmul, refuse_matmul, emit_matmul},
    {&ops::kConv2d, refuse_conv2d, emit_conv2d},
    {&ops::kConvTranspose2d, refuse_conv_transpose2d, emit_conv_transpose2d},
    {&ops::kMaxPool2d, refuse_max_pool2d, emit_max_pool2d},
    {&ops::kAvgPool2d, refuse_avg_pool2d, emit_avg_pool2d},
    {&ops::kAdaptiveAvgPool2d, refuse_global_avg_pool2d, emit_global_avg_pool2d},
    {&ops::kUpsampleBilinear2d, refuse_resize_bilinear2d, emit_resize_bilinear2d},
    {&ops::kClamp, refuse_clamp, emit_clamp},
    {&ops::kReshape, refuse_reshape, emit_reshape},
    {&ops::kPermute, refuse_permute, emit_permute},
    {&ops::kSlice, refuse_slice, emit_slice},
    {&ops::kConcat, refuse_concat, emit_concat},
    {&ops::kPad, refuse_pad, emit_pad},
};

constexpr RaiseFunction kRaise[] = {
    {XnnNodeKind::kFullyConnected, raise_linear},
    {XnnNodeKind::kBatchMatrixMultiply, raise_matmul},
    {XnnNodeKind::kConv2d, raise_conv2d},
    {XnnNodeKind::kDepthwiseConv2d, raise_depthwise_conv2d},
    {XnnNodeKind::kConvTranspose2d, raise_conv_transpose2d},
    {XnnNodeKind::kMaxPooling2d, raise_max_pool2d},
    {XnnNodeKind::kAvgPooling2d, raise_avg_pool2d},
    {XnnNodeKind::kGlobalAvgPooling2d, raise_global_avg_pool2d},
    {XnnNodeKind::kStaticResizeBilinear2D, raise_resize_bilinear2d},
    {XnnNodeKind::kClamp, raise_clamp},
    {XnnNodeKind::kStaticReshape, raise_reshape},
    {XnnNodeKind::kStaticTranspose, raise_permute},
    {XnnNodeKind::kStaticSlice, raise_slice},
    {XnnNodeKind::kConcatenate2, raise_concat},
    {XnnNodeKind::kConcatenate3, raise_concat},
    {XnnNodeKind::kConcatenate4, raise_concat},
    {XnnNodeKind::kConcatenate5, raise_concat},
    {XnnNodeKind::kStaticConstantPad, raise_pad},
    {XnnNodeKind::kConvert, raise_convert},
    {XnnNodeKind::kCopy, raise_copy},
};

}  // namespace

std::span<const OneToOne> one_to_one_table() { return kOneToOne; }
std::span<const Functions> functions_table() { return kFunctions; }
std::span<const RaiseFunction> raise_table() { return kRaise; }

}  // namespace downhaul::xnn

// conv2d ↔ XNNConv2d, XNNDepthwiseConv2d; conv_transpose2d ↔ XNNConvTranspose2d.
// Filters: IR OIHW; payload [out, kh, kw, in/groups], depthwise [1, kh, kw, out].
#include "base/strings.h"
#include "dialects/xnn/filters.h"
#include "dialects/xnn/spelling.h"
#include "ops/ops.h"

namespace downhaul::xnn {
namespace {

std::string refuse_images(const Node& node) {
  if (!node.operand("weight")->is_constant()) return "the filter must be constant";
  const Value* bias = node.operand("bias");
  if (bias != nullptr && !bias->is_constant()) return "the bias must be constant";
  for (int64_t p : node.ints("padding")) {
    if (p < 0) return "negative padding";
  }
  if (node.s("layout") != "nhwc") return "images must be NHWC inside a delegate";
  return "";
}

bool is_depthwise(const Node& node) {
  return node.i("groups") > 1 && node.operand("weight")->dim(1) == Dim(1);
}

XnnConv geometry(const Node& node) {
  const auto u32 = [](int64_t v) { return static_cast<uint32_t>(v); };
  const Ints& padding = node.ints("padding");
  const Sizes weight = static_sizes(node.operand("weight")->shape());
  XnnConv conv;
  conv.padding_top = u32(padding[0]);
  conv.padding_left = u32(padding[1]);
  conv.padding_bottom = u32(padding[2]);
  conv.padding_right = u32(padding[3]);
  conv.kernel_height = u32(weight[2]);
  conv.kernel_width = u32(weight[3]);
  conv.subsampling_height = u32(node.ints("stride")[0]);
  conv.subsampling_width = u32(node.ints("stride")[1]);
  conv.dilation_height = u32(node.ints("dilation")[0]);
  conv.dilation_width = u32(node.ints("dilation")[1]);
  conv.groups = u32(node.i("groups"));
  return conv;
}

NamedAttrs attributes(const XnnConv& conv, int64_t groups) {
  return {{"stride", Ints{conv.subsampling_height, conv.subsampling_width}},
          {"padding",
           Ints{conv.padding_top, conv.padding_left, conv.padding_bottom, conv.padding_right}},
          {"dilation", Ints{conv.dilation_height, conv.dilation_width}},
          {"groups", groups},
          {"layout", std::string("nhwc")}};
}

Result<Value*> raise_with_filter(RaiseCall& call, const OpDef& op, Tensor filter,
                                 NamedAttrs attrs) {
  DH_ASSIGN(Value * x, call.input(0));
  DH_ASSIGN(Value * bias, call.input(2));
  Value* weight = call.b.constant(std::move(filter), call.constant_name(1));
  return call.b.op(op, {x, weight, bias}, attrs);
}

}  // namespace

std::string refuse_conv2d(const Node& node) { return refuse_images(node); }

void emit_conv2d(const Node& node, PayloadBuilder& out) {
  const Value* weight = node.operand("weight");
  const Sizes sizes = static_sizes(weight->shape());
  const bool depthwise = is_depthwise(node);
  XnnConv conv = geometry(node);
  conv.group_input_channels = static_cast<uint32_t>(sizes[1]);
  conv.group_output_channels = static_cast<uint32_t>(sizes[0] / node.i("groups"));
  const uint32_t x = out.use(node.operand("input"));
  const uint32_t w =
      depthwise
          ? out.use_as(weight, "1hwo", [](const Tensor& t) { return permuted(t, {1, 2, 3, 0}); })
          : out.use_as(weight, "ohwi", [](const Tensor& t) { return permuted(t, {0, 2, 3, 1}); });
  const uint32_t bias = out.use_packed(node.operand("bias"));
  out.add(depthwise ? XnnNodeKind::kDepthwiseConv2d : XnnNodeKind::kConv2d, {x, w, bias},
          out.define(node.result()), conv);
}

Result<Value*> raise_conv2d(RaiseCall& call) {
  const XnnConv& conv = call.params<XnnConv>();
  DH_ASSIGN(const Tensor filter, call.constant(1));
  if (filter.rank() != 4) return invalid_file("the filter must have 4 dimensions");
  return raise_with_filter(call, ops::kConv2d, permuted(filter, {0, 3, 1, 2}),
                           attributes(conv, conv.groups));
}

Result<Value*> raise_depthwise_conv2d(RaiseCall& call) {
  const XnnConv& conv = call.params<XnnConv>();
  DH_ASSIGN(const Tensor filter, call.constant(1));
  if (filter.rank() != 4) return invalid_file("the filter must have 4 dimensions");
  return raise_with_filter(call, ops::kConv2d, permuted(filter, {3, 0, 1, 2}),
                           attributes(conv, conv.groups));
}

std::string refuse_conv_transpose2d(const Node& node) { return refuse_images(node); }

void emit_conv_transpose2d(const Node& node, PayloadBuilder& out) {
  const Value* weight = node.operand("weight");
  const Sizes sizes = static_sizes(weight->shape());
  const int64_t groups = node.i("groups");
  XnnConv conv = geometry(node);
  conv.group_input_channels = static_cast<uint32_t>(sizes[0] / groups);
  conv.group_output_channels = static_cast<uint32_t>(sizes[1]);
  conv.adjustment_height = static_cast<uint32_t>(node.ints("output_padding")[0]);
  conv.adjustment_width = static_cast<uint32_t>(node.ints("output_padding")[1]);
  const uint32_t x = out.use(node.operand("input"));
  const uint32_t w = out.use_as(weight, cat("transposed-", groups), [&](const Tensor& t) {
    return transposed_filter_to_payload(t, groups);
  });
  const uint32_t bias = out.use_packed(node.operand("bias"));
  out.add(XnnNodeKind::kConvTranspose2d, {x, w, bias}, out.define(node.result()), conv);
}

Result<Value*> raise_conv_transpose2d(RaiseCall& call) {
  const XnnConv& conv = call.params<XnnConv>();
  DH_ASSIGN(const Tensor filter, call.constant(1));
  if (filter.rank() != 4 || conv.groups == 0 || filter.size(0) % conv.groups != 0) {
    return invalid_file("the filter must have 4 dimensions, the first a multiple of the groups");
  }
  NamedAttrs attrs = attributes(conv, conv.groups);
  attrs.push_back({"output_padding", Ints{conv.adjustment_height, conv.adjustment_width}});
  return raise_with_filter(call, ops::kConvTranspose2d,
                           transposed_filter_from_payload(filter, conv.groups), std::move(attrs));
}

}  // namespace downhaul::xnn

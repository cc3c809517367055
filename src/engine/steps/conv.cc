#include "kernels/conv/conv.h"

#include <memory>
#include <optional>

#include "base/strings.h"
#include "engine/steps/image.h"
#include "engine/steps/steps.h"
#include "ops/ops.h"

// conv2d, with the activation and the addition that follow it; a 1x1 convolution and the depthwise
// one that reads it in one pass.
namespace downhaul::engine {
namespace {

bool is_nhwc(const Node& node) { return node.s("layout") == "nhwc"; }

/// Window, channels and groups of a convolution of an image.
kernels::Conv2d describe_conv(const Node& node, const kernels::Image& in) {
  const Tensor& weight = node.operand("weight")->constant();
  const Ints& stride = node.ints("stride");
  const Ints& padding = node.ints("padding");
  const Ints& dilation = node.ints("dilation");
  kernels::Conv2d conv;
  conv.in = in;
  conv.channels_out = weight.size(0);
  conv.groups = node.i("groups");
  conv.window = {.kernel_h = weight.size(2),
                 .kernel_w = weight.size(3),
                 .stride_h = stride[0],
                 .stride_w = stride[1],
                 .top = padding[0],
                 .left = padding[1],
                 .bottom = padding[2],
                 .right = padding[3],
                 .dilation_h = dilation[0],
                 .dilation_w = dilation[1]};
  conv.out_stride = conv.channels_out;
  // Twice as fast where it applies, and as exact for whole models: docs/engine.md.
  conv.may_reassociate = true;
  return conv;
}

kernels::Image image_of_shape(const Sizes& nhwc) {
  return {nhwc[0], nhwc[1], nhwc[2], nhwc[3], nhwc[3]};
}

/// A convolution with its weights packed and its table built.
struct Prepared {
  kernels::ConvPlan plan;
  const float* packed = nullptr;
  std::shared_ptr<const std::vector<int32_t>> table;
  int64_t weight_bytes = 0;
};

Prepared prepare_conv(PlanBuilder& plan, const Node& node, const kernels::Conv2d& conv) {
  const Tensor& weight = node.operand("weight")->constant();
  const Value* bias_value = node.operand("bias");
  Prepared p;
  p.plan = kernels::plan_conv2d(conv, plan.num_threads());
  p.weight_bytes = static_cast<int64_t>(weight.num_bytes());
  const auto* w = reinterpret_cast<const float*>(plan.constant_data(weight));
  const float* bias =
      bias_value == nullptr
          ? nullptr
          : reinterpret_cast<const float*>(plan.constant_data(bias_value->constant()));
  p.packed = plan.weights().packed(
      weight, bias_value == nullptr ? Tensor() : bias_value->constant(),
      cat("conv ", kernels::kernel_name(p.plan), " ", conv.groups), p.plan.packed_bytes,
      plan.pool(), [&](float* to) { kernels::pack_conv2d(p.plan, w, bias, to, plan.pool()); });
  auto table = std::make_shared<std::vector<int32_t>>(p.plan.table_bytes / sizeof(int32_t));
  kernels::build_conv2d_table(p.plan, table->data());
  p.table = std::move(table);
  return p;
}

/// The tensor that the epilogue adds or multiplies, pixel by pixel.
Ref epilogue_operand(PlanBuilder& plan, const Fusion& f, kernels::Epilogue& epilogue) {
  if (f.operand == nullptr) return {};
  const ImageRef operand = image_of(plan, f.operand, is_nhwc(f.root()));
  epilogue.operand_stride = operand.image.stride;
  return operand.ref;
}

kernels::Epilogue with_operand(kernels::Epilogue e, const Ref& operand, const RunContext& run) {
  if (operand.buffer >= 0) e.operand = run.at<const float>(operand);
  return e;
}

/// An image times a value per channel, which one convolution alone reads.
struct Gated {
  const Value* image;
  const Value* gate;
};

/// The convolution's input as that, when multiplying the weights instead is possible and faster.
std::optional<Gated> gated_input(PlanBuilder& plan, const Node& conv) {
  const Value* input = conv.operand("input");
  const Node* mul = input->producer();
  if (mul == nullptr || !mul->is(ops::kMul) || !input->has_one_use() || !takes_conv2d(plan, conv) ||
      !is_nhwc(conv)) {
    return std::nullopt;
  }
  const Sizes& sizes = plan.sizes(input);
  const kernels::ConvPlan plain =
      kernels::plan_conv2d(describe_conv(conv, image_of_shape(sizes)), plan.num_threads());
  if (!kernels::can_gate(plain) || !kernels::is_gating_faster(plain)) return std::nullopt;
  for (const int side : {0, 1}) {
    const Value* image = mul->operand(side);
    const Value* gate = mul->operand(1 - side);
    if (plan.sizes(image) == sizes && plan.sizes(gate) == Sizes{1, 1, 1, sizes[3]} &&
        image->dtype() == DType::kF32 && gate->dtype() == DType::kF32) {
      return Gated{image, gate};
    }
  }
  return std::nullopt;
}

void* scratch_at(const RunContext& run, const Ref& scratch) {
  return scratch.buffer >= 0 ? run.at<void>(scratch) : nullptr;
}

/// The weights times the gate, then the convolution of the image as it is.
void plan_gated_conv2d(PlanBuilder& plan, const Fusion& f, const Gated& gated) {
  const Node& node = f.root();
  const ImageRef in = image_of(plan, gated.image, true);
  const Ref gate = plan.dense(gated.gate);
  kernels::Conv2d conv = describe_conv(node, in.image);
  kernels::Epilogue epilogue = f.epilogue;
  const Ref operand = epilogue_operand(plan, f, epilogue);
  const ImageRef out = image_result(plan, f.result(), true);
  conv.out_stride = out.image.stride;
  const Prepared p = prepare_conv(plan, node, conv);
  const Ref weights = plan.scratch(p.plan.packed_bytes);
  std::vector<const Node*> nodes = {node.operand("input")->producer()};
  nodes.insert(nodes.end(), f.nodes.begin(), f.nodes.end());
  plan.emit(
      cat("conv ", kernels::kernel_name(p.plan), " of gated weights", f.kernel), std::move(nodes),
      [=, result = out.ref](RunContext& run) {
        kernels::gate_weights(p.plan, p.packed, run.at<const float>(gate), run.at<float>(weights),
                              run.pool);
        kernels::run_conv2d(p.plan, run.at<const float>(in.ref), run.at<float>(weights), nullptr,
                            with_operand(epilogue, operand, run), run.at<float>(result), nullptr,
                            run.pool);
      },
      2 * p.weight_bytes);
}

}  // namespace

bool is_gate_of_conv2d(PlanBuilder& plan, const Node& node) {
  const Value* product = node.result();
  if (!node.is(ops::kMul) || !product->has_one_use() || product->num_output_uses() != 0) {
    return false;
  }
  const Node* reader = product->uses()[0].node;
  return reader->is(ops::kConv2d) && reader->operand("input") == product &&
         gated_input(plan, *reader).has_value();
}

bool takes_conv2d(PlanBuilder& plan, const Node& node) {
  if (!node.is(ops::kConv2d) || node.result()->dtype() != DType::kF32) return false;
  const Value* bias = node.operand("bias");
  return node.operand("weight")->is_constant() && (bias == nullptr || bias->is_constant()) &&
         plan.elements(node.result()) > 0 && plan.elements(node.operand("input")) > 0;
}

void plan_conv2d(PlanBuilder& plan, const Fusion& f) {
  const Node& node = f.root();
  if (const std::optional<Gated> gated = gated_input(plan, node)) {
    plan_gated_conv2d(plan, f, *gated);
    return;
  }
  const bool nhwc = is_nhwc(node);
  const Value* input = node.operand("input");
  const View from = nhwc_view(plan.view(input), nhwc);
  kernels::Conv2d conv = describe_conv(node, image_of_shape(from.sizes));
  conv.planes_in = true;
  Ref in = from.ref;
  if (!is_planes(from) || !kernels::can_read_planes(conv)) {
    conv.planes_in = false;
    const ImageRef image = image_of(plan, input, nhwc);
    conv.in = image.image;
    in = image.ref;
  }
  kernels::Epilogue epilogue = f.epilogue;
  const Ref operand = epilogue_operand(plan, f, epilogue);
  const ImageRef out = image_result(plan, f.result(), nhwc);
  conv.out_stride = out.image.stride;
  const Prepared p = prepare_conv(plan, node, conv);
  const Ref scratch = plan.scratch(p.plan.scratch_bytes);
  plan.emit(
      cat("conv ", kernels::kernel_name(p.plan), f.kernel), f.nodes,
      [=, result = out.ref](RunContext& run) {
        kernels::run_conv2d(p.plan, run.at<const float>(in), p.packed, p.table->data(),
                            with_operand(epilogue, operand, run), run.at<float>(result),
                            scratch_at(run, scratch), run.pool);
      },
      p.weight_bytes);
}

const Node* depthwise_after(PlanBuilder& plan, const Fusion& f) {
  const Node& node = f.root();
  const Value* result = f.result();
  if (!node.is(ops::kConv2d) || !is_nhwc(node) || gated_input(plan, node).has_value() ||
      f.operand != nullptr || !result->has_one_use() || result->num_output_uses() != 0) {
    return nullptr;
  }
  const Node* next = result->uses()[0].node;
  if (!takes_conv2d(plan, *next) || !is_nhwc(*next) || next->operand("input") != result) {
    return nullptr;
  }
  const kernels::Conv2d expand =
      describe_conv(node, image_of_shape(plan.sizes(node.operand("input"))));
  const kernels::Conv2d depthwise = describe_conv(*next, image_of_shape(plan.sizes(result)));
  const auto first = kernels::plan_conv2d(expand, plan.num_threads());
  const auto second = kernels::plan_conv2d(depthwise, plan.num_threads());
  return kernels::can_fuse_expand(first, second) && kernels::is_fusing_expand_faster(first, second)
             ? next
             : nullptr;
}

void plan_expanded_conv2d(PlanBuilder& plan, const Fusion& expand, const Fusion& f) {
  const ImageRef in = image_of(plan, expand.root().operand("input"), true);
  const Prepared first = prepare_conv(plan, expand.root(), describe_conv(expand.root(), in.image));
  kernels::Epilogue epilogue = f.epilogue;
  const Ref operand = epilogue_operand(plan, f, epilogue);
  const ImageRef out = image_result(plan, f.result(), true);
  kernels::Conv2d conv = describe_conv(f.root(), image_of_shape(plan.sizes(expand.result())));
  conv.out_stride = out.image.stride;
  const Prepared second = prepare_conv(plan, f.root(), conv);
  const Ref scratch =
      plan.scratch(kernels::fused_expand_scratch_bytes(second.plan, plan.num_threads()));
  std::vector<const Node*> nodes = expand.nodes;
  nodes.insert(nodes.end(), f.nodes.begin(), f.nodes.end());
  plan.emit(
      cat("conv pointwise", expand.kernel, " + depthwise", f.kernel), std::move(nodes),
      [=, expand_epilogue = expand.epilogue, result = out.ref](RunContext& run) {
        kernels::run_fused_expand(first.plan, run.at<const float>(in.ref), first.packed,
                                  expand_epilogue, second.plan, second.packed,
                                  with_operand(epilogue, operand, run), run.at<float>(result),
                                  scratch_at(run, scratch), run.pool);
      },
      first.weight_bytes + second.weight_bytes);
}

}  // namespace downhaul::engine

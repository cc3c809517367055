#include "kernels/conv/conv.h"

#include <memory>

#include "base/strings.h"
#include "engine/steps/image.h"
#include "engine/steps/steps.h"
#include "ops/ops.h"

// conv2d, with the activation and the addition that follow it.
namespace downhaul::engine {

bool takes_conv2d(PlanBuilder& plan, const Node& node) {
  if (!node.is(ops::kConv2d) || node.result()->dtype() != DType::kF32) return false;
  const Value* bias = node.operand("bias");
  return node.operand("weight")->is_constant() && (bias == nullptr || bias->is_constant()) &&
         plan.elements(node.result()) > 0 && plan.elements(node.operand("input")) > 0;
}

void plan_conv2d(PlanBuilder& plan, const Fusion& f) {
  const Node& node = f.root();
  const bool nhwc = node.s("layout") == "nhwc";
  const Value* input = node.operand("input");
  const Tensor& weight = node.operand("weight")->constant();
  const Value* bias_value = node.operand("bias");
  const Ints& stride = node.ints("stride");
  const Ints& padding = node.ints("padding");
  const Ints& dilation = node.ints("dilation");

  kernels::Conv2d conv;
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

  const View from = nhwc_view(plan.view(input), nhwc);
  conv.in = {from.sizes[0], from.sizes[1], from.sizes[2], from.sizes[3], from.sizes[3]};
  conv.planes_in = true;
  Ref in = from.ref;
  if (!is_planes(from) || !kernels::can_read_planes(conv)) {
    conv.planes_in = false;
    const ImageRef image = image_of(plan, input, nhwc);
    conv.in = image.image;
    in = image.ref;
  }
  kernels::Epilogue epilogue = f.epilogue;
  Ref operand;
  if (f.operand != nullptr) {
    operand = nhwc ? plan.dense(f.operand) : plan.dense_in_order(f.operand, {0, 2, 3, 1});
    epilogue.operand_stride = conv.channels_out;
  }
  const ImageRef out = image_result(plan, f.result(), nhwc);
  const kernels::ConvPlan kernel = kernels::plan_conv2d(conv, plan.num_threads());

  const auto* w = reinterpret_cast<const float*>(plan.constant_data(weight));
  const float* bias =
      bias_value == nullptr
          ? nullptr
          : reinterpret_cast<const float*>(plan.constant_data(bias_value->constant()));
  const float* packed =
      plan.weights().packed(weight, bias_value == nullptr ? Tensor() : bias_value->constant(),
                            cat("conv ", kernels::kernel_name(kernel), " ", conv.groups),
                            kernel.packed_bytes, [&](float* to) {
                              ThreadPool pool(1);
                              kernels::pack_conv2d(kernel, w, bias, to, pool);
                            });
  auto table = std::make_shared<std::vector<int32_t>>(kernel.table_bytes / sizeof(int32_t));
  kernels::build_conv2d_table(kernel, table->data());
  const Ref scratch = plan.scratch(kernel.scratch_bytes);
  plan.emit(
      cat("conv ", kernels::kernel_name(kernel), f.kernel), f.nodes,
      [=, result = out.ref](RunContext& run) {
        kernels::Epilogue e = epilogue;
        if (operand.buffer >= 0) e.operand = run.at<const float>(operand);
        kernels::run_conv2d(kernel, run.at<const float>(in), packed, table->data(), e,
                            run.at<float>(result),
                            scratch.buffer >= 0 ? run.at<void>(scratch) : nullptr, run.pool);
      },
      static_cast<int64_t>(weight.num_bytes()));
}

}  // namespace downhaul::engine

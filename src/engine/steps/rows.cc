#include <algorithm>

#include "engine/steps/along.h"
#include "engine/steps/steps.h"
#include "kernels/rows/norm.h"
#include "kernels/rows/softmax.h"
#include "ops/ops.h"

// Normalisation and softmax.
namespace downhaul::engine {
namespace {

bool all_f32(const Node& node) {
  return node.result()->dtype() == DType::kF32 &&
         std::all_of(node.operands().begin(), node.operands().end(),
                     [](const Value* v) { return v == nullptr || v->dtype() == DType::kF32; });
}

/// Null stays null.
Ref optional_dense(PlanBuilder& plan, const Value* value) {
  return value == nullptr ? Ref{} : plan.dense(value);
}
const float* floats_at(const RunContext& run, const Ref& ref) {
  return ref.buffer < 0 ? nullptr : run.at<const float>(ref);
}

}  // namespace

bool plan_layer_norm(PlanBuilder& plan, const Node& node) {
  if (!all_f32(node) || plan.elements(node.result()) == 0) return false;
  kernels::LayerNorm call;
  call.width = 1;
  for (const int64_t n : node.ints("normalized_shape")) call.width *= n;
  call.rows = plan.elements(node.result()) / call.width;
  call.eps = static_cast<float>(node.f("eps"));
  call.in_stride = call.out_stride = call.width;
  const Ref in = plan.dense(node.operand("input"));
  const Ref weight = optional_dense(plan, node.operand("weight"));
  const Ref bias = optional_dense(plan, node.operand("bias"));
  const Ref out = plan.result(node.result());
  plan.emit("layer_norm", {&node}, [=](RunContext& run) {
    kernels::LayerNorm c = call;
    c.in = run.at<const float>(in);
    c.weight = floats_at(run, weight);
    c.bias = floats_at(run, bias);
    c.out = run.at<float>(out);
    kernels::layer_norm(c, run.pool);
  });
  return true;
}

bool plan_group_norm(PlanBuilder& plan, const Node& node) {
  if (!all_f32(node) || plan.elements(node.result()) == 0) return false;
  const Sizes& sizes = plan.sizes(node.result());
  kernels::GroupNorm call;
  call.batch = sizes[0];
  call.channels = sizes[1];
  call.groups = node.i("num_groups");
  call.plane = plan.elements(node.result()) / (sizes[0] * sizes[1]);
  call.eps = static_cast<float>(node.f("eps"));
  const Ref in = plan.dense(node.operand("input"));
  const Ref weight = optional_dense(plan, node.operand("weight"));
  const Ref bias = optional_dense(plan, node.operand("bias"));
  const Ref out = plan.result(node.result());
  plan.emit("group_norm", {&node}, [=](RunContext& run) {
    kernels::GroupNorm c = call;
    c.in = run.at<const float>(in);
    c.weight = floats_at(run, weight);
    c.bias = floats_at(run, bias);
    c.out = run.at<float>(out);
    kernels::group_norm(c, run.pool);
  });
  return true;
}

bool plan_softmax(PlanBuilder& plan, const Node& node) {
  const Value* value = node.operand(0);
  if (!all_f32(node) || plan.elements(value) == 0 || value->rank() == 0) return false;
  const Along a = along(plan.sizes(value), node.axis("dim", value->rank()));
  const bool is_log = node.is(ops::kLogSoftmax);
  const Ref in = plan.dense(value);
  const Ref out = plan.result(node.result());
  plan.emit(std::string(node.op_name()), {&node}, [=](RunContext& run) {
    const kernels::Softmax call{a.outer, a.size, a.inner, run.at<const float>(in),
                                run.at<float>(out)};
    if (is_log) {
      kernels::log_softmax(call, run.pool);
    } else {
      kernels::softmax(call, run.pool);
    }
  });
  return true;
}

}  // namespace downhaul::engine

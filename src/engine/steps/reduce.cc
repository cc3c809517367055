#include <algorithm>

#include "engine/steps/along.h"
#include "engine/steps/elementwise.h"
#include "engine/steps/steps.h"
#include "kernels/rows/reduce.h"
#include "ops/ops.h"

// Reductions, positions of extremes, running sums.
namespace downhaul::engine {

bool plan_reduce(PlanBuilder& plan, const Node& node) {
  using kernels::ReduceOp;
  if (node.is(ops::kMean) && plan_image_mean(plan, node)) return true;
  static const std::pair<const OpDef*, ReduceOp> kOps[] = {
      {&ops::kAll, ReduceOp::kAll},   {&ops::kAny, ReduceOp::kAny}, {&ops::kAmax, ReduceOp::kAmax},
      {&ops::kAmin, ReduceOp::kAmin}, {&ops::kSum, ReduceOp::kSum}, {&ops::kMean, ReduceOp::kMean},
      {&ops::kProd, ReduceOp::kProd}, {&ops::kVar, ReduceOp::kVar}};
  const auto op = std::find_if(std::begin(kOps), std::end(kOps),
                               [&](const auto& row) { return node.is(*row.first); });
  const Value* value = node.operand(0);
  const kernels::Element element = element_of(value->dtype());
  if (op == std::end(kOps) || !kernels::is_supported(op->second, element) ||
      plan.elements(value) == 0) {
    return false;
  }
  const DType result = kernels::gives_bool(op->second) ? DType::kBool : value->dtype();
  if (node.result()->dtype() != result) return false;
  Ints dims;
  for (const int64_t d : node.ints("dims")) dims.push_back(d < 0 ? d + value->rank() : d);
  const auto call = kernels::plan_reduce(
      op->second, element, plan.sizes(value), dims,
      op->second == ReduceOp::kVar ? static_cast<double>(node.i("correction")) : 1.0);
  if (!call) return false;
  const Ref in = plan.dense(value);
  const Ref out = plan.result(node.result());
  plan.emit(std::string(node.op_name()), {&node}, [=, call = *call](RunContext& run) {
    kernels::reduce(call, run.at<const void>(in), run.at<void>(out), run.pool);
  });
  return true;
}

bool plan_argument(PlanBuilder& plan, const Node& node) {
  const Value* value = node.operand(0);
  if (plan.elements(value) == 0 || value->rank() == 0 || value->dtype() == DType::kF16 ||
      value->dtype() == DType::kBF16) {
    return false;
  }
  const Along a = along(plan.sizes(value), node.axis("dim", value->rank()));
  const kernels::Element element = element_of(value->dtype());
  const bool largest = node.is(ops::kArgmax);
  const Ref in = plan.dense(value);
  const Ref out = plan.result(node.result());
  plan.emit(std::string(node.op_name()), {&node}, [=](RunContext& run) {
    const auto call = largest ? kernels::argmax : kernels::argmin;
    call(element, a.outer, a.size, a.inner, run.at<const void>(in), run.at<int64_t>(out), run.pool);
  });
  return true;
}

bool plan_cumsum(PlanBuilder& plan, const Node& node) {
  const Value* value = node.operand(0);
  const DType dtype = value->dtype();
  if (plan.elements(value) == 0 || value->rank() == 0 || node.result()->dtype() != dtype ||
      (dtype != DType::kI64 && dtype != DType::kF32 && dtype != DType::kF64)) {
    return false;
  }
  const Along a = along(plan.sizes(value), node.axis("dim", value->rank()));
  const kernels::Element element = element_of(dtype);
  const Ref in = plan.dense(value);
  const Ref out = plan.result(node.result());
  plan.emit("cumsum", {&node}, [=](RunContext& run) {
    kernels::cumsum(element, a.outer, a.size, a.inner, run.at<const void>(in), run.at<void>(out),
                    run.pool);
  });
  return true;
}

}  // namespace downhaul::engine

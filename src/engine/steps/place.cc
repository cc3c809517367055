#include "engine/steps/place.h"

#include "base/strings.h"
#include "engine/steps/steps.h"
#include "ops/cached.h"
#include "ops/ops.h"

// Rows read from and written to a place that the run knows. Rows written into the state that they
// become the content of go straight there.
namespace downhaul::engine {

RunScalar run_scalar(PlanBuilder& plan, const Value* value) {
  return {plan.dense(value), value->dtype() == DType::kI64};
}

void fail_place(RunContext& run, std::string_view op, int64_t place, int64_t last) {
  run.fail(invalid_argument(cat(op, ": index ", place, " out of range [0, ", last + 1, ")")));
}

bool plan_read_rows(PlanBuilder& plan, const Node& node) {
  const Value* out = node.result();
  if (plan.elements(out) == 0) return false;
  View from = plan.view(node.operand("self"));
  const auto axis = static_cast<size_t>(node.axis("dim", static_cast<int64_t>(from.sizes.size())));
  const Sizes sizes = plan.sizes(out);
  const int64_t offset = node.dim("offset").value();
  const int64_t last = from.sizes[axis] - offset - sizes[axis];
  const int64_t row_bytes = from.strides[axis] * static_cast<int64_t>(item_size(from.dtype));
  from.sizes = sizes;
  const RunScalar start = run_scalar(plan, node.operand("start"));
  const View to{plan.result(out), from.dtype, sizes, contiguous_strides(sizes)};
  const auto copy = strided_copy(from, to);
  plan.emit("read_rows", {&node}, [=](RunContext& run) {
    const int64_t at = start.read(run);
    if (at < 0 || at > last) return fail_place(run, "read_rows", at, last);
    kernels::permute(copy, run.at<const std::byte>(from.ref) + (at + offset) * row_bytes,
                     run.at<void>(to.ref), run.pool);
  });
  return true;
}

bool plan_write_rows(PlanBuilder& plan, const Node& node) {
  const Value* self = node.operand("self");
  const Value* src = node.operand("src");
  if (plan.elements(src) == 0 || !plan.write_in_place(self, node.result())) return false;
  const View from = plan.view(src);
  View to = plan.view(self);
  const auto axis = static_cast<size_t>(node.axis("dim", static_cast<int64_t>(to.sizes.size())));
  const int64_t last = to.sizes[axis] - from.sizes[axis];
  const int64_t row_bytes = to.strides[axis] * static_cast<int64_t>(item_size(to.dtype));
  to.sizes = from.sizes;
  const RunScalar start = run_scalar(plan, node.operand("start"));
  const auto copy = strided_copy(from, to);
  plan.emit("write_rows", {&node}, [=](RunContext& run) {
    const int64_t at = start.read(run);
    if (at < 0 || at > last) return fail_place(run, "write_rows", at, last);
    kernels::permute(copy, run.at<const void>(from.ref), run.at<std::byte>(to.ref) + at * row_bytes,
                     run.pool);
  });
  return true;
}

}  // namespace downhaul::engine

#include <algorithm>

#include "base/strings.h"
#include "engine/steps/along.h"
#include "engine/steps/elementwise.h"
#include "engine/steps/steps.h"
#include "kernels/rows/gather.h"
#include "ops/ops.h"

// Elements picked by index tensors.
namespace downhaul::engine {
namespace {

kernels::Indices indices_of(const Value* value) {
  kernels::Indices indices;
  indices.element = element_of(value->dtype());
  return indices;
}

int64_t element_at(const kernels::Indices& indices, int64_t i) {
  switch (indices.element) {
    case kernels::Element::kU8:
      return static_cast<const uint8_t*>(indices.data)[i];
    case kernels::Element::kI8:
      return static_cast<const int8_t*>(indices.data)[i];
    case kernels::Element::kI16:
      return static_cast<const int16_t*>(indices.data)[i];
    case kernels::Element::kI32:
      return static_cast<const int32_t*>(indices.data)[i];
    default:
      return static_cast<const int64_t*>(indices.data)[i];
  }
}

/// Says which of the `count` indices it was.
void out_of_range(RunContext& run, const std::string& op, int64_t size,
                  const kernels::Indices& indices, int64_t count) {
  const int64_t low = indices.from_end ? -size : 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t v = element_at(indices, i);
    if (v >= low && v < size) continue;
    run.fail(invalid_argument(cat(op, ": index ", v, " out of range [", low, ", ", size, ")")));
    return;
  }
}

}  // namespace

namespace {

/// Rows of `source` along `axis` at the positions that `index` names.
bool plan_rows(PlanBuilder& plan, const Node& node, const Value* source, const Value* index,
               int64_t axis) {
  if (plan.elements(node.result()) == 0) return false;
  const Along a = along(plan.sizes(source), axis);
  const auto row_bytes = a.inner * static_cast<int64_t>(item_size(source->dtype()));
  const int64_t count = plan.elements(index);
  const kernels::Indices indices = indices_of(index);
  const Ref table = plan.dense(source);
  const Ref ids = plan.dense(index);
  const Ref out = plan.result(node.result());
  const std::string name(node.op_name());
  plan.emit(name, {&node}, [=](RunContext& run) {
    kernels::Indices i = indices;
    i.data = run.at<const void>(ids);
    if (!kernels::gather_rows(a.outer, a.size, row_bytes, count, i, run.at<const void>(table),
                              run.at<void>(out), run.pool)) {
      out_of_range(run, name, a.size, i, count);
    }
  });
  return true;
}

}  // namespace

bool plan_embedding(PlanBuilder& plan, const Node& node) {
  return plan_rows(plan, node, node.operand("weight"), node.operand("indices"), 0);
}

bool plan_index_select(PlanBuilder& plan, const Node& node) {
  const Value* self = node.operand("self");
  if (self->rank() == 0) return false;
  return plan_rows(plan, node, self, node.operand("index"), node.axis("dim", self->rank()));
}

bool plan_batched_select(PlanBuilder& plan, const Node& node) {
  if (plan.elements(node.result()) == 0) return false;
  const Value* self = node.operand("self");
  const Sizes sizes = plan.sizes(self);
  const int64_t row_bytes =
      plan.elements(node.result()) / sizes[0] * static_cast<int64_t>(item_size(self->dtype()));
  kernels::Indices indices = indices_of(node.operand("index"));
  indices.from_end = true;
  const Ref source = plan.dense(self);
  const Ref ids = plan.dense(node.operand("index"));
  const Ref out = plan.result(node.result());
  plan.emit("batched_select", {&node}, [=](RunContext& run) {
    kernels::Indices i = indices;
    i.data = run.at<const void>(ids);
    if (!kernels::batched_select(sizes[0], sizes[1], row_bytes, i, run.at<const void>(source),
                                 run.at<void>(out), run.pool)) {
      out_of_range(run, "batched_select", sizes[1], i, sizes[0]);
    }
  });
  return true;
}

bool plan_gather(PlanBuilder& plan, const Node& node) {
  const Value* self = node.operand("self");
  const Value* index = node.operand("index");
  if (plan.elements(node.result()) == 0 || self->rank() == 0 ||
      self->rank() > kernels::Loops::kMaxRank) {
    return false;
  }
  kernels::Gather call;
  call.rank = static_cast<int>(self->rank());
  call.axis = static_cast<int>(node.axis("dim", self->rank()));
  call.element_size = static_cast<int64_t>(item_size(self->dtype()));
  std::copy_n(plan.sizes(self).begin(), call.rank, call.source_sizes.begin());
  std::copy_n(plan.sizes(index).begin(), call.rank, call.index_sizes.begin());
  const kernels::Indices indices = indices_of(index);
  const int64_t elements = plan.elements(index);
  const Ref source = plan.dense(self);
  const Ref ids = plan.dense(index);
  const Ref out = plan.result(node.result());
  plan.emit("gather", {&node}, [=](RunContext& run) {
    kernels::Indices i = indices;
    i.data = run.at<const void>(ids);
    if (!kernels::gather(call, i, run.at<const void>(source), run.at<void>(out), run.pool)) {
      out_of_range(run, "gather", call.source_sizes[static_cast<size_t>(call.axis)], i, elements);
    }
  });
  return true;
}

}  // namespace downhaul::engine

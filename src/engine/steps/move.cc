#include <algorithm>
#include <memory>
#include <numeric>

#include "engine/steps/steps.h"
#include "kernels/elementwise/copy.h"
#include "ops/ops.h"

// Elements in other places: roll and flip.
namespace downhaul::engine {

namespace {

/// Dimension by dimension, the index of self that the result shows.
using Tables = std::vector<std::vector<int64_t>>;

Tables identity_tables(const Sizes& sizes) {
  Tables tables;
  for (const int64_t size : sizes) {
    tables.emplace_back(static_cast<size_t>(size));
    std::iota(tables.back().begin(), tables.back().end(), int64_t{0});
  }
  return tables;
}

bool plan_by_tables(PlanBuilder& plan, const Node& node, Tables tables) {
  const Value* self = node.operand(0);
  if (plan.elements(node.result()) == 0 || self->rank() == 0 ||
      self->rank() > kernels::Loops::kMaxRank) {
    return false;
  }
  kernels::TableCopy copy;
  copy.rank = static_cast<int>(self->rank());
  copy.element_size = static_cast<int64_t>(item_size(self->dtype()));
  const View view = plan.view(self);
  auto held = std::make_shared<const Tables>(std::move(tables));
  for (size_t d = 0; d < held->size(); ++d) {
    copy.sizes[d] = static_cast<int64_t>((*held)[d].size());
    copy.source_strides[d] = view.strides[d];
    copy.tables[d] = (*held)[d].data();
  }
  const Ref out = plan.result(node.result());
  plan.emit(std::string(node.op_name()), {&node}, [=, from = view.ref](RunContext& run) {
    (void)held;
    kernels::run_table_copy(copy, run.at<const void>(from), nullptr, run.at<void>(out), run.pool);
  });
  return true;
}

}  // namespace

bool plan_roll(PlanBuilder& plan, const Node& node) {
  Tables tables = identity_tables(plan.sizes(node.operand(0)));
  const Ints& dims = node.ints("dims");
  for (size_t i = 0; i < dims.size(); ++i) {
    auto& table = tables[static_cast<size_t>(dims[i])];
    const auto size = static_cast<int64_t>(table.size());
    if (size == 0) continue;
    const int64_t shift = (node.ints("shifts")[i] % size + size) % size;
    std::rotate(table.begin(), table.end() - shift, table.end());
  }
  return plan_by_tables(plan, node, std::move(tables));
}

bool plan_flip(PlanBuilder& plan, const Node& node) {
  Tables tables = identity_tables(plan.sizes(node.operand(0)));
  for (const int64_t d : node.ints("dims")) {
    auto& table = tables[static_cast<size_t>(d)];
    std::reverse(table.begin(), table.end());
  }
  return plan_by_tables(plan, node, std::move(tables));
}

}  // namespace downhaul::engine

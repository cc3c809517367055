#include <algorithm>
#include <memory>

#include "engine/steps/steps.h"
#include "kernels/elementwise/copy.h"
#include "kernels/image/image.h"
#include "ops/evaluate.h"
#include "ops/ops.h"
#include "ops/pad.h"

// concat and pad, as copies to their places; and what is known when the sizes are.
namespace downhaul::engine {
namespace {

struct Copy {
  kernels::PermutePlan permute;
  Ref from;
  int64_t offset = 0;  ///< in the result, in bytes
  bool is_empty = false;
};

/// The copy of `value` into a larger row-major tensor at `at` (elements).
std::optional<Copy> copy_into(PlanBuilder& plan, const Value* value, const Sizes& whole,
                              int64_t at) {
  if (whole.size() > kernels::PermutePlan::kMaxRank) return std::nullopt;
  const View view = plan.view(value);
  const auto item = static_cast<int64_t>(item_size(view.dtype));
  Copy copy;
  copy.from = view.ref;
  copy.offset = at * item;
  copy.is_empty = plan.elements(value) == 0;
  const std::vector<int64_t> to = contiguous_strides(whole);
  copy.permute = kernels::plan_permute(static_cast<int>(view.sizes.size()), view.sizes.data(),
                                       view.strides.data(), to.data(), item);
  return copy;
}

/// Any mode and type, cropping too: dimension by dimension the index that the result shows, or -1.
bool plan_pad_by_tables(PlanBuilder& plan, const Node& node) {
  const Value* self = node.operand("self");
  const Sizes whole = plan.sizes(node.result());
  if (plan.elements(node.result()) == 0 || plan.elements(self) == 0 || whole.empty() ||
      whole.size() > kernels::Loops::kMaxRank) {
    return false;
  }
  const std::string& mode = node.s("mode");
  const View view = plan.view(self);
  kernels::TableCopy copy;
  copy.rank = static_cast<int>(whole.size());
  copy.element_size = static_cast<int64_t>(item_size(self->dtype()));
  auto tables = std::make_shared<std::vector<std::vector<int64_t>>>(whole.size());
  for (size_t d = 0; d < whole.size(); ++d) {
    const int64_t size = view.sizes[d];
    const int64_t before = node.ints("before")[d];
    const int64_t most = std::max(before, node.ints("after")[d]);
    if (mode == "reflect" && most > 0 && most >= size) return false;  // the reference says why
    for (int64_t i = 0; i < whole[d]; ++i) {
      (*tables)[d].push_back(ops::pad_source_index(mode, i - before, size));
    }
    copy.sizes[d] = whole[d];
    copy.source_strides[d] = view.strides[d];
    copy.tables[d] = (*tables)[d].data();
  }
  const Tensor fill = Tensor::scalar(self->dtype(), node.f("value"));
  const Ref out = plan.result(node.result());
  plan.emit("pad", {&node}, [=, from = view.ref](RunContext& run) {
    (void)tables;
    kernels::run_table_copy(copy, run.at<const void>(from), fill.bytes().data(), run.at<void>(out),
                            run.pool);
  });
  return true;
}

}  // namespace

bool plan_concat(PlanBuilder& plan, const Node& node) {
  const Sizes whole = plan.sizes(node.result());
  if (plan.elements(node.result()) == 0 || whole.empty() ||
      whole.size() > kernels::PermutePlan::kMaxRank) {
    return false;
  }
  const auto axis = static_cast<size_t>(node.axis("dim", node.result()->rank()));
  const int64_t stride = contiguous_strides(whole)[axis];
  std::vector<Copy> copies;
  int64_t at = 0;
  for (const Value* value : node.list()) {
    copies.push_back(*copy_into(plan, value, whole, at * stride));
    at += plan.sizes(value)[axis];
  }
  const Ref out = plan.result(node.result());
  plan.emit("concat", {&node}, [=, copies = std::move(copies)](RunContext& run) {
    for (const Copy& copy : copies) {
      if (copy.is_empty) continue;
      kernels::permute(copy.permute, run.at<const void>(copy.from),
                       run.at<std::byte>(out) + copy.offset, run.pool);
    }
  });
  return true;
}

bool plan_pad(PlanBuilder& plan, const Node& node) {
  const Value* self = node.operand("self");
  const Sizes whole = plan.sizes(node.result());
  const Ints& before = node.ints("before");
  const Ints& after = node.ints("after");
  const auto negative = [](int64_t n) { return n < 0; };
  if (node.s("mode") != "constant" || self->dtype() != DType::kF32 ||
      plan.elements(node.result()) == 0 || whole.size() > kernels::PermutePlan::kMaxRank ||
      std::any_of(before.begin(), before.end(), negative) ||
      std::any_of(after.begin(), after.end(), negative)) {
    return plan_pad_by_tables(plan, node);
  }
  const std::vector<int64_t> strides = contiguous_strides(whole);
  int64_t at = 0;
  for (size_t d = 0; d < before.size(); ++d) at += before[d] * strides[d];
  const auto copy = copy_into(plan, self, whole, at);
  const auto value = static_cast<float>(node.f("value"));
  const int64_t count = plan.elements(node.result());
  const Ref out = plan.result(node.result());
  plan.emit("pad", {&node}, [=, copy = *copy](RunContext& run) {
    auto* to = run.at<float>(out);
    run.pool.run(count, 1 << 14,
                 [&](int64_t begin, int64_t end, int) { std::fill(to + begin, to + end, value); });
    if (copy.is_empty) return;
    kernels::permute(copy.permute, run.at<const void>(copy.from),
                     reinterpret_cast<std::byte*>(to) + copy.offset, run.pool);
  });
  return true;
}

bool plan_known(PlanBuilder& plan, const Node& node) {
  auto values = evaluate_node(node, {});
  if (!values.ok() || values->size() != 1) return false;
  plan.set_constant(node.result(), std::move((*values)[0]));
  return true;
}

}  // namespace downhaul::engine

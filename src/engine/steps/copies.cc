#include <optional>

#include "engine/steps/elementwise.h"
#include "engine/steps/steps.h"
#include "kernels/elementwise/copy.h"
#include "ops/ops.h"

// Operators that only repeat, shuffle or blank elements.
namespace downhaul::engine {
namespace {

int64_t item(const Value* value) { return static_cast<int64_t>(item_size(value->dtype())); }

bool plan_one_copy(PlanBuilder& plan, const Node& node, const std::optional<kernels::Copy>& copy) {
  if (!copy) return false;
  const Ref from = plan.dense(node.operand(0));
  const Ref out = plan.result(node.result());
  plan.emit(std::string(node.op_name()), {&node}, [=, copy = *copy](RunContext& run) {
    kernels::run_copy(copy, run.at<const void>(from), run.at<void>(out), run.pool);
  });
  return true;
}

/// [lead, C, f, f, H, W] and [lead, C, H, f, W, f]: the same elements, the second as the larger
/// image shows them.
bool plan_shuffle(PlanBuilder& plan, const Node& node, bool to_image) {
  const Value* self = node.operand(0);
  if (plan.elements(node.result()) == 0) return false;
  const Sizes& small = plan.sizes(to_image ? self : node.result());
  const int64_t f = node.i("factor");
  const size_t r = small.size();
  int64_t lead = small[r - 3] / (f * f);
  for (size_t d = 0; d + 3 < r; ++d) lead *= small[d];
  const int64_t h = small[r - 2];
  const int64_t w = small[r - 1];
  const Sizes image = {lead, h, f, w, f};  // of the larger image
  const std::vector<int64_t> large = contiguous_strides(image);
  const std::vector<int64_t> planes = contiguous_strides(Sizes{lead, f, f, h, w});
  // The same dimensions in the planes: lead, h, i, w, j.
  const std::vector<int64_t> other = {planes[0], planes[3], planes[1], planes[4], planes[2]};
  return plan_one_copy(plan, node,
                       kernels::plan_copy(image, to_image ? other : large, to_image ? large : other,
                                          0, 0, item(self)));
}

bool plan_triangle(PlanBuilder& plan, const Node& node, bool upper) {
  const Value* self = node.operand(0);
  const Sizes& sizes = plan.sizes(self);
  const int64_t elements = plan.elements(self);
  if (elements == 0) return false;
  const int64_t rows = sizes[sizes.size() - 2];
  const int64_t columns = sizes.back();
  const int64_t size = item(self);
  const int64_t diagonal = node.i("diagonal");
  const Ref from = plan.dense(self);
  const Ref out = plan.result(node.result());
  plan.emit(std::string(node.op_name()), {&node}, [=](RunContext& run) {
    kernels::triangle(size, elements / (rows * columns), rows, columns, diagonal, upper,
                      run.at<const void>(from), run.at<void>(out), run.pool);
  });
  return true;
}

}  // namespace

bool plan_repeat(PlanBuilder& plan, const Node& node) {
  const Value* self = node.operand(0);
  if (plan.elements(node.result()) == 0) return false;
  return plan_one_copy(plan, node,
                       kernels::plan_repeat(plan.sizes(self), node.ints("repeats"), item(self)));
}

bool plan_pixel_shuffle(PlanBuilder& plan, const Node& node) {
  return plan_shuffle(plan, node, true);
}
bool plan_pixel_unshuffle(PlanBuilder& plan, const Node& node) {
  return plan_shuffle(plan, node, false);
}

bool plan_tril(PlanBuilder& plan, const Node& node) { return plan_triangle(plan, node, false); }
bool plan_triu(PlanBuilder& plan, const Node& node) { return plan_triangle(plan, node, true); }

bool plan_slice_scatter(PlanBuilder& plan, const Node& node) {
  const Value* self = node.operand("self");
  const Value* src = node.operand("src");
  const Sizes& sizes = plan.sizes(self);
  const auto axis = static_cast<size_t>(node.axis("dim", self->rank()));
  if (plan.elements(self) == 0 || !node.dim("start").is_static()) return false;
  const std::vector<int64_t> whole = contiguous_strides(sizes);
  const auto base = kernels::plan_copy(sizes, whole, whole, 0, 0, item(self));
  std::vector<int64_t> places = whole;
  places[axis] *= node.i("step");
  const Sizes& part = plan.sizes(src);
  const auto over = kernels::plan_copy(part, contiguous_strides(part), places, 0,
                                       node.dim("start").value() * whole[axis], item(self));
  if (!base || !over) return false;
  const bool is_empty = plan.elements(src) == 0;
  const Ref a = plan.dense(self);
  const Ref b = plan.dense(src);
  const Ref out = plan.result(node.result());
  plan.emit("slice_scatter", {&node}, [=, base = *base, over = *over](RunContext& run) {
    kernels::run_copy(base, run.at<const void>(a), run.at<void>(out), run.pool);
    if (is_empty) return;
    kernels::run_copy(over, run.at<const void>(b), run.at<void>(out), run.pool);
  });
  return true;
}

bool plan_prelu(PlanBuilder& plan, const Node& node) {
  const Value* self = node.operand("self");
  const kernels::Element element = element_of(self->dtype());
  const Sizes& sizes = plan.sizes(self);
  if (plan.elements(self) == 0 || sizes.size() < 2 ||
      !kernels::is_supported(kernels::BinaryOp::kPrelu, element)) {
    return false;
  }
  const View x = plan.view(self);
  View slope = plan.view(node.operand("weight"));
  // One slope, or one per channel: along dimension 1.
  const int64_t count = plan.elements(node.operand("weight"));
  const int64_t stride = slope.strides.empty() ? 0 : slope.strides[0];
  slope.sizes.assign(sizes.size() - 1, 1);
  slope.strides.assign(sizes.size() - 1, 0);
  slope.sizes[0] = count;
  slope.strides[0] = stride;
  const auto loops = loops_over(sizes, {x, slope});
  if (!loops) return false;
  const Ref out = plan.result(node.result());
  plan.emit("prelu", {&node}, [=, loops = *loops](RunContext& run) {
    kernels::binary(kernels::BinaryOp::kPrelu, element, loops, run.at<const void>(x.ref),
                    run.at<const void>(slope.ref), run.at<void>(out), run.pool);
  });
  return true;
}

}  // namespace downhaul::engine

#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/steps/place.h"
#include "engine/steps/steps.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "ops/cached.h"
#include "ops/ops.h"

// attention and matmul. Heads are read and written where the projections left and want them: the
// transposes around attention in a model are views here.
namespace downhaul::engine {
namespace {

/// The leading dimensions of an operand as (batch, head) strides; a missing one broadcasts.
struct Batch {
  int64_t batch = 0, head = 0;
};
Batch batch_strides(const View& v, size_t inner) {
  const size_t leading = v.sizes.size() - inner;
  const auto stride = [&](size_t d) { return v.sizes[d] == 1 ? 0 : v.strides[d]; };
  Batch b;
  if (leading >= 1) b.head = stride(leading - 1);
  if (leading >= 2) b.batch = stride(leading - 2);
  return b;
}

/// Ranks up to [batch, head, row, column]: one more leading dimension must be 1.
bool at_most_two_leading(const Sizes& sizes, size_t inner) {
  for (size_t d = 0; d + inner + 2 < sizes.size(); ++d) {
    if (sizes[d] != 1) return false;
  }
  return true;
}

}  // namespace

bool plan_attention(PlanBuilder& plan, const Node& node) {
  const Value* q = node.operand("query");
  const Value* k = node.operand("key");
  const Value* v = node.operand("value");
  const Value* mask = node.operand("mask");
  const Value* out = node.result();
  const Sizes shape = plan.sizes(out);
  const size_t rank = shape.size();
  if (out->dtype() != DType::kF32 || plan.elements(out) == 0) return false;
  for (const Value* value : {q, k, v}) {
    if (!at_most_two_leading(plan.sizes(value), 2)) return false;
  }
  if (!at_most_two_leading(shape, 2)) return false;
  if (mask != nullptr && (!at_most_two_leading(plan.sizes(mask), 2) || mask->rank() < 2)) {
    return false;
  }
  kernels::Attention call;
  call.heads = rank >= 3 ? shape[rank - 3] : 1;
  call.batch = rank >= 4 ? shape[rank - 4] : 1;
  call.queries = shape[rank - 2];
  call.value_dim = shape[rank - 1];
  const Sizes key_sizes = plan.sizes(k);
  call.keys = key_sizes[key_sizes.size() - 2];
  call.head_dim = key_sizes.back();
  if (call.keys == 0 || call.head_dim == 0) return false;
  call.scale = static_cast<float>(node.has_attr("scale")
                                      ? node.f("scale")
                                      : 1.0 / std::sqrt(static_cast<double>(call.head_dim)));
  // A sequence in a cache: where it ends is known in the run.
  const Value* position = node.is(ops::kCachedAttention) ? node.operand("position") : nullptr;
  call.is_causal = position != nullptr || node.b("is_causal");
  const int64_t offset = position != nullptr ? node.dim("offset").value() : 0;

  const auto heads = [&](const Value* value, Ref& ref) {
    View view = plan.view(value);
    if (view.sizes.back() > 1 && view.strides.back() != 1) {
      view.ref = plan.dense(value);
      view.strides = contiguous_strides(view.sizes);
    }
    const Batch b = batch_strides(view, 2);
    ref = view.ref;
    return kernels::HeadsView{nullptr, b.batch, b.head, view.strides[view.sizes.size() - 2]};
  };
  Ref q_ref, k_ref, v_ref, mask_ref;
  call.query = heads(q, q_ref);
  call.key = heads(k, k_ref);
  call.value = heads(v, v_ref);
  if (mask != nullptr) {
    View view = plan.view(mask);
    if (view.sizes.back() > 1 && view.strides.back() > 1) {
      view.ref = plan.dense(mask);
      view.strides = contiguous_strides(view.sizes);
    }
    const Batch b = batch_strides(view, 2);
    const size_t r = view.sizes.size();
    mask_ref = view.ref;
    call.mask.kind =
        mask->dtype() == DType::kBool ? kernels::MaskKind::kBool : kernels::MaskKind::kFloat;
    call.mask.batch = b.batch;
    call.mask.head = b.head;
    call.mask.query = view.sizes[r - 2] == 1 ? 0 : view.strides[r - 2];
    call.mask.key = view.sizes[r - 1] == 1 ? 0 : view.strides[r - 1];
  }
  // Rows outside heads, as the projection that follows wants them, when all that reads the result
  // is the transpose to that order.
  View to;
  const Node* reader =
      out->has_one_use() && out->num_output_uses() == 0 ? out->uses()[0].node : nullptr;
  if (rank == 4 && reader != nullptr && reader->is(ops::kPermute) &&
      reader->ints("dims") == Ints{0, 2, 1, 3}) {
    to = plan.result_in_order(out, {0, 2, 1, 3});
  } else {
    std::vector<int64_t> order;
    for (size_t d = 0; d < rank; ++d) order.push_back(static_cast<int64_t>(d));
    to = plan.result_in_order(out, order);
  }
  call.out_row = to.strides[rank - 2];
  if (rank >= 3) call.out_head = to.strides[rank - 3];
  if (rank >= 4) call.out_batch = to.strides[rank - 4];
  const Ref scratch = plan.scratch(kernels::attention_scratch_bytes(call, plan.num_threads()));
  const std::optional<RunScalar> place =
      position == nullptr ? std::nullopt : std::optional(run_scalar(plan, position));
  const int64_t places = call.keys - offset - call.queries;
  plan.emit(std::string(node.op_name()), {&node}, [=, out_ref = to.ref](RunContext& run) {
    kernels::Attention c = call;
    if (place) {
      const int64_t at = place->read(run);
      if (at < 0 || at > places) return fail_place(run, "cached_attention", at, places);
      c.causal_offset = at + offset;
      c.keys = at + offset + c.queries;
    }
    c.query.data = run.at<const float>(q_ref);
    c.key.data = run.at<const float>(k_ref);
    c.value.data = run.at<const float>(v_ref);
    if (mask_ref.buffer >= 0) c.mask.data = run.at<const void>(mask_ref);
    c.out = run.at<float>(out_ref);
    kernels::attention(c, scratch.buffer >= 0 ? run.at<void>(scratch) : nullptr, run.pool);
  });
  return true;
}

bool plan_matmul(PlanBuilder& plan, const Node& node) {
  const Value* a = node.operand("self");
  const Value* b = node.operand("other");
  const Value* out = node.result();
  if (out->dtype() != DType::kF32 || plan.elements(out) == 0) return false;
  const Sizes shape = plan.sizes(out);
  for (const Value* value : {a, b}) {
    if (value->rank() < 2 || !at_most_two_leading(plan.sizes(value), 2)) return false;
  }
  if (!at_most_two_leading(shape, 2)) return false;
  const size_t rank = shape.size();
  const bool ta = node.b("transpose_self"), tb = node.b("transpose_other");
  kernels::Matmul call;
  call.m = shape[rank - 2];
  call.n = shape[rank - 1];
  const Sizes a_sizes = plan.sizes(a);
  call.k = a_sizes[a_sizes.size() - (ta ? 2 : 1)];
  if (call.k == 0) return false;
  call.batch[0] = rank >= 4 ? shape[rank - 4] : 1;
  call.batch[1] = rank >= 3 ? shape[rank - 3] : 1;
  const auto operand = [&](const Value* value, bool transposed, Ref& ref) {
    const View view = plan.view(value);
    const size_t r = view.sizes.size();
    const Batch batch = batch_strides(view, 2);
    ref = view.ref;
    const int64_t first = view.strides[r - 2], second = view.strides[r - 1];
    return kernels::Operand{nullptr,
                            {batch.batch, batch.head},
                            transposed ? second : first,
                            transposed ? first : second};
  };
  Ref a_ref, b_ref;
  call.a = operand(a, ta, a_ref);
  call.b = operand(b, tb, b_ref);
  call.c_row_stride = call.n;
  call.c_batch_stride[1] = call.m * call.n;
  call.c_batch_stride[0] = call.batch[1] * call.m * call.n;
  const Ref c_ref = plan.result(out);
  const Ref scratch = plan.scratch(kernels::matmul_scratch_bytes(call, plan.num_threads()));
  plan.emit("matmul", {&node}, [=](RunContext& run) {
    kernels::Matmul c = call;
    c.a.data = run.at<const float>(a_ref);
    c.b.data = run.at<const float>(b_ref);
    c.c = run.at<float>(c_ref);
    kernels::matmul(c, scratch.buffer >= 0 ? run.at<void>(scratch) : nullptr, run.pool);
  });
  return true;
}

}  // namespace downhaul::engine

// attention(q, k, v, mask) → softmax(scale·q · kᵀ + bias) · v.
//   A bool mask becomes the indicator m of what may be attended to: bias = (m - 1)·1e9, whose
//   exponential is 0 exactly. A row that may attend to nothing would average all values; it is
//   multiplied by clamp(sum m, 0, 1), which makes it the zeros that attention gives.
//   Causal: bias = -1e9 · clamp(column - row, 0, 1), from two vectors of positions, so that a
//   dynamic length needs one slice and no table of length².
#include <cmath>

#include "ops/ops.h"
#include "passes/values.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

namespace {

constexpr double kMasked = 1e9;

bool leading_sizes_agree(const Value* a, const Value* b) {
  if (a->rank() != b->rank()) return false;
  for (int64_t i = 0; i + 2 < a->rank(); ++i) {
    if (!(a->dim(i) == b->dim(i))) return false;
  }
  return true;
}

/// True when every row of the mask lets something through, whatever the inputs are.
bool has_no_empty_row(const Value* mask) {
  if (!mask->is_constant()) return false;
  const Tensor& t = mask->constant();
  const int64_t columns = t.size(t.rank() - 1);
  for (int64_t row = 0; row < t.num_elements(); row += columns) {
    bool any = false;
    for (int64_t i = 0; i < columns; ++i) any |= t.int_at(row + i) != 0;
    if (!any) return false;
  }
  return true;
}

/// Sum of an indicator over its last dimension, whose size may be dynamic.
Value* count_last(Builder& b, Value* m) {
  const int64_t rank = m->rank();
  return b.op(ops::kSum, {m}, {{"dims", Ints{rank - 1}}, {"keepdim", true}});
}

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* q = node.operand("query");
  Value* k = node.operand("key");
  Value* v = node.operand("value");
  Value* mask = node.operand("mask");
  if (!is_f32(q) || !leading_sizes_agree(q, k) || !leading_sizes_agree(q, v)) return {};
  const int64_t rank = q->rank();
  const double width = static_cast<double>(q->dim(rank - 1).max());
  const double scale = node.has_attr("scale") ? node.f("scale") : 1 / std::sqrt(width);
  // The scale goes to q: it has fewer elements than the scores in all but tiny models.
  Value* scores = matmul(b, mul(b, q, number(b, scale)), k, true);
  Value* keep = nullptr;
  if (node.b("is_causal")) {
    const Dim& rows = q->dim(rank - 2);
    const Dim& columns = k->dim(rank - 2);
    Value* row = reshape(b, positions(b, rows), {rows, Dim(1)});
    Value* column = reshape(b, positions(b, columns), {Dim(1), columns});
    Value* later = clamp(b, sub(b, column, row), 0, 1);
    scores = add(b, scores, mul(b, later, number(b, -kMasked)));
  }
  if (mask != nullptr && mask->dtype() == DType::kBool) {
    Value* m = indicator(b, mask);
    Value* masked = mul(b, add(b, m, number(b, -1)), number(b, kMasked));
    scores = add(b, scores, masked);
    if (m != nullptr && !has_no_empty_row(mask)) keep = clamp(b, count_last(b, m), 0, 1);
  } else if (mask != nullptr) {
    if (!is_f32(mask)) return {};
    scores = add(b, scores, mask);
  }
  Value* weights = b.op(ops::kSoftmax, {scores}, {{"dim", int64_t{-1}}});
  Value* result = matmul(b, weights, v);
  if (keep != nullptr) result = mul(b, result, keep);
  return {result};
}

}  // namespace

// The last row of a causal attention may attend to every key: only that row of q is needed, and no
// mask.
const Rewrite kLastRowOfCausalAttention = {
    .name = "xnn_last_row_of_causal_attention",
    .root = &ops::kSlice,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* y = node.operand(0);
      if (!is_op(y, ops::kAttention) || !is_f32(y) || node.i("step") != 1) return {};
      const Node& attention = *y->producer();
      Value* q = attention.operand("query");
      const int64_t rows = q->rank() - 2;
      const Dim& last = attention.operand("key")->dim(rows);
      if (!attention.b("is_causal") || attention.operand("mask") != nullptr) return {};
      if (node.axis("dim", y->rank()) != rows || !(q->dim(rows) == last)) return {};
      if (!(node.dim("end") == last) || !(node.dim("start") == last - Dim(1))) return {};
      Value* row = slice(b, q, rows, node.dim("start"), node.dim("end"));
      return {b.like(attention,
                     {row, attention.operand("key"), attention.operand("value"), nullptr},
                     {{"is_causal", false}})};
    },
};

const Rewrite kExpandAttention = {
    .name = "xnn_expand_attention",
    .root = &ops::kAttention,
    .apply = apply,
};

}  // namespace downhaul::xnnpack

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

double scale_of(const Node& attention) {
  const Value* q = attention.operand("query");
  const double width = static_cast<double>(q->dim(q->rank() - 1).max());
  return attention.has_attr("scale") ? attention.f("scale") : 1 / std::sqrt(width);
}

/// What each key weighs for each row, from the scores [.., S, T].
///   keep  set to the factor that makes rows without a key zero; null when there are none
Value* weights_of(const Node& attention, Value* scores, Builder& b, Value** keep) {
  *keep = nullptr;
  const Value* q = attention.operand("query");
  Value* mask = attention.operand("mask");
  if (attention.b("is_causal")) {
    const Dim& rows = q->dim(q->rank() - 2);
    const Dim& columns = attention.operand("key")->dim(q->rank() - 2);
    Value* row = reshape(b, positions(b, rows), {rows, Dim(1)});
    Value* column = reshape(b, positions(b, columns), {Dim(1), columns});
    Value* later = clamp(b, sub(b, column, row), 0, 1);
    scores = add(b, scores, mul(b, later, number(b, -kMasked)));
  }
  if (mask != nullptr && mask->dtype() == DType::kBool) {
    Value* m = indicator(b, mask);
    Value* masked = mul(b, add(b, m, number(b, -1)), number(b, kMasked));
    scores = add(b, scores, masked);
    if (m != nullptr && !has_no_empty_row(mask)) *keep = clamp(b, count_last(b, m), 0, 1);
  } else if (mask != nullptr) {
    scores = add(b, scores, mask);
  }
  return b.op(ops::kSoftmax, {scores}, {{"dim", int64_t{-1}}});
}

bool has_usable_mask(const Node& attention) {
  const Value* mask = attention.operand("mask");
  return mask == nullptr || mask->dtype() == DType::kBool || is_f32(mask);
}

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* q = node.operand("query");
  Value* k = node.operand("key");
  Value* v = node.operand("value");
  if (!is_f32(q) || !leading_sizes_agree(q, k) || !leading_sizes_agree(q, v)) return {};
  if (!has_usable_mask(node)) return {};
  // The scale goes to q: it has fewer elements than the scores in all but tiny models.
  Value* scores = matmul(b, mul(b, q, number(b, scale_of(node))), k, true);
  Value* keep = nullptr;
  Value* weights = weights_of(node, scores, b, &keep);
  Value* result = matmul(b, weights, v);
  if (keep != nullptr) result = mul(b, result, keep);
  return {result};
}

/// A key or value [1, H, T, D] that is linear(h) of h [1, T, E], split into heads; null otherwise.
const Node* projection_by_heads(const Value* value) {
  if (!is_op(value, ops::kPermute) || !value->has_one_use()) return nullptr;
  if (value->producer()->ints("dims") != Ints{0, 2, 1, 3}) return nullptr;
  const Value* split = value->producer()->operand(0);
  if (!is_op(split, ops::kReshape) || !split->has_one_use()) return nullptr;
  const Value* projected = split->producer()->operand(0);
  if (!is_op(projected, ops::kLinear) || !projected->has_one_use()) return nullptr;
  const Node* linear = projected->producer();
  const Value* bias = linear->operand("bias");
  const Value* h = linear->operand("input");
  if (linear->b("weight_transposed") || !linear->operand("weight")->is_constant()) return nullptr;
  if (bias != nullptr && !bias->is_constant()) return nullptr;
  if (h->rank() != 3 || !(h->dim(0) == Dim(1)) || !(h->dim(1) == value->dim(2))) return nullptr;
  return linear;
}

/// The weight [H·D, E] of a projection as [1, H, D, E]: the same bytes.
Value* weight_by_heads(Builder& b, const Node& linear, const Value* value) {
  const Value* weight = linear.operand("weight");
  const Tensor& data = weight->constant();
  return b.constant(data.reshaped({1, value->dim(1).value(), value->dim(3).value(), data.size(1)}),
                    weight->name());
}

std::vector<Value*> project_single_query(Node& node, Builder& b) {
  Value* q = node.operand("query");
  Value* k = node.operand("key");
  Value* v = node.operand("value");
  if (!is_f32(q) || q->rank() != 4 || !leading_sizes_agree(q, k) || !leading_sizes_agree(q, v)) {
    return {};
  }
  if (!(q->dim(2) == Dim(1)) || !(q->dim(0) == Dim(1)) || !has_usable_mask(node)) return {};
  if (!q->dim(1).is_static() || k->dim(2).max() < 3) return {};
  const Node* key = projection_by_heads(k);
  const Node* value = projection_by_heads(v);
  if (key == nullptr || value == nullptr) return {};
  const Dim& heads = q->dim(1);
  const Dim& length = k->dim(2);
  Value* h = key->operand("input");
  const Dim& width = h->dim(2);
  const Dim& value_width = value->operand("input")->dim(2);

  Value* scaled = mul(b, q, number(b, scale_of(node)));
  Value* asked = matmul(b, scaled, weight_by_heads(b, *key, k));
  Value* scores = matmul(b, reshape(b, asked, {Dim(1), heads, width}), h, true);
  Value* keep = nullptr;
  Value* weights = weights_of(node, reshape(b, scores, {Dim(1), heads, Dim(1), length}), b, &keep);
  Value* mixed = matmul(b, reshape(b, weights, {Dim(1), heads, length}), value->operand("input"));
  mixed = reshape(b, mixed, {Dim(1), heads, Dim(1), value_width});
  Value* result = matmul(b, mixed, weight_by_heads(b, *value, v), true);
  if (Value* bias = value->operand("bias")) {
    result = add(b, result, reshape(b, bias, {Dim(1), heads, Dim(1), v->dim(3)}));
  }
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

// A single query: it is projected into the space of h once, instead of every row of h into keys and
// values. With k = h·Wkᵀ + bk and v = h·Wvᵀ + bv, for each head:
//   q·kᵀ = (q·Wk)·hᵀ + q·bk, the same number for every key, which a softmax does not see;
//   w·v  = (w·h)·Wvᵀ + bv, since the weights w sum to 1.
// Of the projections' T·E·H·D multiply-adds 1/T + 1/D remain.
const Rewrite kProjectSingleQuery = {
    .name = "xnn_project_single_query",
    .root = &ops::kAttention,
    .apply = project_single_query,
};

const Rewrite kExpandAttention = {
    .name = "xnn_expand_attention",
    .root = &ops::kAttention,
    .apply = apply,
};

}  // namespace downhaul::xnnpack

// Rows picked inside a delegate: a one-hot row times the matrix of rows.
#include "ops/ops.h"
#include "passes/values.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

namespace {

/// [B, S] one-hot of the first true in each row of `condition` (bool [B, S]); of element 0 in a row
/// without one, as argmax of a row of equals gives: softmax(kGap·S·m - kGap·position) of the
/// indicator m. The largest argument exceeds all others by kGap at least, and exp(-kGap) is 0 in
/// f32, so the result is exact.
Value* first_true(Builder& b, Value* condition) {
  constexpr int64_t kGap = 128;
  constexpr int64_t kExactIntegers = 1 << 24;
  const int64_t longest = condition->dim(1).max();
  if (longest > kExactIntegers / kGap) return nullptr;
  Value* place = mul(b, positions(b, condition->dim(1)), number(b, -kGap));
  Value* found = mul(b, indicator(b, condition), number(b, static_cast<double>(kGap * longest)));
  return b.op(ops::kSoftmax, {add(b, found, place)}, {{"dim", int64_t{-1}}});
}

/// [B, 1, S] · [B, S, D], for rows of any rank.
Value* pick(Builder& b, Value* one_hot, Value* x, const Shape& result) {
  const Dim batch = x->dim(0);
  const Dim length = x->dim(1);
  const Dim width = product(x->shape(), 2, x->shape().size());
  Value* rows = reshape(b, x, {batch, length, width});
  Value* row = reshape(b, one_hot, {batch, Dim(1), length});
  return reshape(b, matmul(b, row, rows), result);
}

/// The bool tensor [B, S] whose first true along dimension 1 `index` [B] is, or null.
Value* first_true_of(Value* index) {
  if (is_op(index, ops::kReshape)) index = index->producer()->operand(0);
  if (!is_op(index, ops::kArgmax)) return nullptr;
  const Node& argmax = *index->producer();
  Value* x = argmax.operand(0);
  if (x->rank() != 2 || argmax.axis("dim", 2) != 1) return nullptr;
  // A cast of a condition has its maximum where the condition is first true.
  if (is_op(x, ops::kCast)) x = x->producer()->operand(0);
  return x->dtype() == DType::kBool ? x : nullptr;
}

bool is_in_range_by_construction(Value* index, const Dim& length) {
  if (is_op(index, ops::kReshape)) index = index->producer()->operand(0);
  if (!is_op(index, ops::kArgmax) && !is_op(index, ops::kArgmin)) return false;
  const Node& node = *index->producer();
  const Value* x = node.operand(0);
  return x->dim(node.axis("dim", x->rank())) == length;
}

std::vector<Value*> select_by_product(Node& node, Builder& b) {
  Value* x = node.operand("self");
  Value* index = node.operand("index");
  if (!is_f32(x) || index->rank() != 1) return {};
  Value* condition = first_true_of(index);
  Value* one_hot = nullptr;
  if (condition != nullptr && condition->dim(1) == x->dim(1) && condition->dim(0) == x->dim(0)) {
    one_hot = first_true(b, condition);
  } else if (is_in_range_by_construction(index, x->dim(1)) && x->dim(1).is_static()) {
    // Any other index: compared with all positions by a kernel outside.
    const int64_t n = x->dim(1).value();
    Tensor all(index->dtype(), {1, n});
    for (int64_t i = 0; i < n; ++i) all.set_int(i, i);
    Value* column = reshape(b, index, {index->dim(0), Dim(1)});
    one_hot = indicator(b, b.op(ops::kEq, {column, b.constant(std::move(all))}));
  }
  if (one_hot == nullptr) return {};
  return {pick(b, one_hot, x, node.result()->shape())};
}

}  // namespace

const Rewrite kSelectByProduct = {
    .name = "xnn_select_by_product",
    .root = &ops::kBatchedSelect,
    .apply = select_by_product,
};

// One row at a dynamic place, x[.., e:e+1, ..] with e = f(s): the one-hot row is a stretch of a
// constant with a single one in its middle, cut by a kernel outside.
const Rewrite kDynamicRowByProduct = {
    .name = "xnn_dynamic_row_by_product",
    .root = &ops::kSlice,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      constexpr int64_t kMaxLength = 1 << 20;
      Value* x = node.operand(0);
      const auto axis = static_cast<size_t>(node.axis("dim", x->rank()));
      const Dim& start = node.dim("start");
      if (!is_f32(x) || x->is_constant() || start.is_static() || node.i("step") != 1) return {};
      if (!(node.dim("end") == start + Dim(1))) return {};
      const Dim batch = product(x->shape(), 0, axis);
      const Dim length = x->shape()[axis];
      const Dim width = product(x->shape(), axis + 1, x->shape().size());
      if (!batch.is_static() || !width.is_static() || start.max() >= kMaxLength) return {};
      // Element i of a row is element last - start + i of the constant.
      const int64_t last = start.max();
      const int64_t size = last + length.max();
      Tensor spikes(DType::kF32, {batch.value(), size});
      for (int64_t i = 0; i < batch.value(); ++i) spikes.set(i * size + last, 1);
      const Dim from = Dim(last) - start;
      Value* row = slice(b, b.constant(std::move(spikes)), 1, from, from + length);
      row = reshape(b, row, {batch, Dim(1), length});
      Value* rows = reshape(b, x, {batch, length, width});
      return {reshape(b, matmul(b, row, rows), node.result()->shape())};
    },
};

}  // namespace downhaul::xnnpack

#include <algorithm>

#include "ops/ops.h"
#include "targets/portable/rewrites/rewrites.h"

// Selections and reductions without a kernel of their own.
namespace downhaul::portable {
namespace {

// batched_select(x [B, S, …], i [B]) → index(x, [0 … B-1, i]) [B, …] → [B, 1, …]
std::vector<Value*> batched_select_to_index(Node& node, Builder& b) {
  Value* self = node.operand("self");
  Value* index = node.operand("index");
  Value* batches =
      b.op(ops::kArange, {}, {{"start", Dim(0)}, {"end", self->dim(0)}, {"dtype", DType::kI64}});
  if (index->dtype() != DType::kI64) index = b.op(ops::kCast, {index}, {{"dtype", DType::kI64}});
  Value* rows = b.op(ops::kIndex, {self, batches, index});
  return {b.op(ops::kReshape, {rows}, {{"shape", node.result()->shape()}})};
}

// triu(x, d) → x where column - row ≥ d, else 0
std::vector<Value*> triu_to_where(Node& node, Builder& b) {
  Value* self = node.operand("self");
  const Dim rows = self->dim(self->rank() - 2), columns = self->dim(self->rank() - 1);
  const auto positions = [&](const Dim& start, const Dim& count, Shape shape) {
    Value* range = b.op(ops::kArange, {}, {{"start", start}, {"end", start + count}});
    return b.op(ops::kReshape, {range}, {{"shape", std::move(shape)}});
  };
  Value* row = positions(node.i("diagonal"), rows, {rows, 1});
  Value* column = positions(0, columns, {1, columns});
  Value* kept = b.op(ops::kGe, {column, row});
  return {b.op(ops::kWhere, {kept, self, b.scalar(self->dtype(), 0)})};
}

// all(x) = not any(not x)
std::vector<Value*> all_to_any(Node& node, Builder& b) {
  Value* any = b.op(ops::kAny, {b.op(ops::kLogicalNot, {node.operand(0)})},
                    {{"dims", node.ints("dims")}, {"keepdim", node.b("keepdim")}});
  return {b.op(ops::kLogicalNot, {any})};
}

// prod over several dimensions → one after the other, the last first
std::vector<Value*> split_prod(Node& node, Builder& b) {
  Ints axes = node.ints("dims");
  if (axes.size() < 2) return {};
  std::sort(axes.rbegin(), axes.rend());
  Value* v = node.operand(0);
  for (const int64_t axis : axes)
    v = b.op(ops::kProd, {v}, {{"dims", Ints{axis}}, {"keepdim", node.b("keepdim")}});
  return {v};
}

// A mean of floats over several dimensions and many elements → one dimension after the other, the
// last first. The kernel adds up one by one in the element type: over n equal values the error
// grows to about n·eps/4 of the sum.
std::vector<Value*> split_mean(Node& node, Builder& b) {
  constexpr int64_t kMaxAtOnce = 2048;
  Value* v = node.operand(0);
  Ints axes = node.ints("dims");
  if (axes.size() < 2) return {};
  int64_t count = 1;
  for (const int64_t axis : axes) {
    const Dim& size = v->dim(axis);
    if (!size.is_static() || size.value() == 0) return {};
    count = size.value() > kMaxAtOnce / count ? kMaxAtOnce + 1 : count * size.value();
  }
  if (count <= kMaxAtOnce) return {};
  std::sort(axes.rbegin(), axes.rend());
  for (const int64_t axis : axes)
    v = b.op(ops::kMean, {v}, {{"dims", Ints{axis}}, {"keepdim", node.b("keepdim")}});
  return {v};
}

// argmax of bool: the kernel takes numbers
std::vector<Value*> argmax_of_bool(Node& node, Builder& b) {
  if (node.operand(0)->dtype() != DType::kBool) return {};
  Value* numbers = b.op(ops::kCast, {node.operand(0)}, {{"dtype", DType::kU8}});
  return {b.like(node, {numbers})};
}

}  // namespace

const Rewrite kBatchedSelectToIndex = {
    .name = "batched_select_to_index",
    .root = &ops::kBatchedSelect,
    .apply = batched_select_to_index,
};

const Rewrite kTriuToWhere = {
    .name = "triu_to_where",
    .root = &ops::kTriu,
    .apply = triu_to_where,
};

const Rewrite kAllToAny = {
    .name = "all_to_any",
    .root = &ops::kAll,
    .apply = all_to_any,
};

const Rewrite kSplitProd = {
    .name = "split_prod",
    .root = &ops::kProd,
    .apply = split_prod,
};

const Rewrite kSplitMean = {
    .name = "split_mean",
    .root = &ops::kMean,
    .apply = split_mean,
};

const Rewrite kArgmaxOfBool = {
    .name = "argmax_of_bool",
    .root = &ops::kArgmax,
    .apply = argmax_of_bool,
};

}  // namespace downhaul::portable

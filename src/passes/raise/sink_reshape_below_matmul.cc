// matmul(reshape(x, [n, i, k]), reshape(y, [n, k, j])) → reshape(matmul(x, y)) when both reshapes
// merge the same leading dimensions: decomposed programs flatten the batch of every matmul to one
// dimension.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

/// The reshape's source when it merges leading dimensions and keeps the last two; scaled when the
/// operand is the scaled reshape.
Value* unmerged(Value* operand, Builder& b) {
  if (is_op(operand, ops::kMul) && operand->has_one_use()) {
    const Node& product = *operand->producer();
    Value* scale = product.operand(1);
    if (!splat_value(scale) || scale->rank() != 0) return nullptr;
    Value* x = unmerged(product.operand(0), b);
    return x == nullptr ? nullptr : b.op(ops::kMul, {x, scale});
  }
  if (!is_op(operand, ops::kReshape) || operand->rank() != 3) return nullptr;
  Value* x = operand->producer()->operand(0);
  const int64_t rank = x->rank();
  if (rank < 4 || !(x->dim(rank - 1) == operand->dim(2)) ||
      !(x->dim(rank - 2) == operand->dim(1))) {
    return nullptr;
  }
  return x;
}

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* x = unmerged(node.operand(0), b);
  Value* y = unmerged(node.operand(1), b);
  if (x == nullptr || y == nullptr || x->rank() != y->rank()) return {};
  for (int64_t d = 0; d < x->rank() - 2; ++d) {
    if (!(x->dim(d) == y->dim(d))) return {};
  }
  Value* product = b.like(node, {x, y});
  return {b.op(ops::kReshape, {product}, {{"shape", Dims(node.result()->shape())}})};
}

}  // namespace

const Rewrite kSinkReshapeBelowMatmul = {
    .name = "sink_reshape_below_matmul",
    .root = &ops::kMatmul,
    .apply = apply,
};

}  // namespace downhaul::rewrites

// matmul and linear in the forms that the payload has: a constant filter, or two operands of equal
// rank and equal leading sizes, only the second transposed.
#include "ops/ops.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

namespace {

Ints swap_last_two(int64_t rank) {
  Ints dims;
  for (int64_t i = 0; i < rank; ++i) dims.push_back(i);
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return dims;
}

bool leading_ones(const Value* v) {
  for (int64_t i = 0; i + 2 < v->rank(); ++i) {
    if (!(v->dim(i) == Dim(1))) return false;
  }
  return true;
}

Shape with_leading_ones(const Shape& shape, size_t rank) {
  Shape result(rank - shape.size(), Dim(1));
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

}  // namespace

// matmul(x, constant) → linear
const Rewrite kMatmulToLinear = {
    .name = "xnn_matmul_to_linear",
    .root = &ops::kMatmul,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      Value* w = node.operand(1);
      if (!is_f32(x) || !w->is_constant() || x->is_constant() || !leading_ones(w)) return {};
      if (node.b("transpose_self") || x->rank() < w->rank()) return {};
      const Sizes& sizes = w->constant().sizes();
      if (w->rank() > 2) {
        // Leading sizes of 1 drop without moving a byte.
        w = b.constant(w->constant().reshaped({sizes[sizes.size() - 2], sizes.back()}), w->name());
      }
      return {
          b.op(ops::kLinear, {x, w, nullptr}, {{"weight_transposed", !node.b("transpose_other")}})};
    },
};

// A first operand that is transposed is transposed beforehand.
const Rewrite kMatmulWithoutTransposeSelf = {
    .name = "xnn_matmul_without_transpose_self",
    .root = &ops::kMatmul,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      if (!is_f32(x) || !node.b("transpose_self")) return {};
      return {matmul(b, permute(b, x, swap_last_two(x->rank())), node.operand(1),
                     node.b("transpose_other"))};
    },
};

// Operands of different rank, or of rank 2: leading sizes of 1 are added. One matrix for all
// batches of x: the batches become rows.
const Rewrite kMatmulOfEqualRank = {
    .name = "xnn_matmul_of_equal_rank",
    .root = &ops::kMatmul,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      Value* y = node.operand(1);
      if (!is_f32(x) || node.b("transpose_self")) return {};
      const bool transposed = node.b("transpose_other");
      const size_t rank = std::max<size_t>(std::max(x->shape().size(), y->shape().size()), 3);
      if (x->shape().size() != rank || y->shape().size() != rank) {
        Value* left = reshape(b, x, with_leading_ones(x->shape(), rank));
        Value* right = reshape(b, y, with_leading_ones(y->shape(), rank));
        Value* z = matmul(b, left, right, transposed);
        return {reshape(b, z, node.result()->shape())};
      }
      if (leading_ones(y) && !leading_ones(x)) {
        const Dim rows = product(x->shape(), 0, rank - 1);
        Value* flat = reshape(b, x, {Dim(1), rows, x->dim(x->rank() - 1)});
        Value* matrix = reshape(b, y, {Dim(1), y->dim(y->rank() - 2), y->dim(y->rank() - 1)});
        return {reshape(b, matmul(b, flat, matrix, transposed), node.result()->shape())};
      }
      return {};
    },
};

// linear with a weight that is computed → matmul; with a bias that is computed → add.
const Rewrite kLinearToMatmul = {
    .name = "xnn_linear_to_matmul",
    .root = &ops::kLinear,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand("input");
      Value* w = node.operand("weight");
      Value* bias = node.operand("bias");
      if (!is_f32(x)) return {};
      const bool transposed = node.b("weight_transposed");
      if (x->rank() < 2) {
        if (x->rank() == 0) return {};
        Value* y = b.like(node, {reshape(b, x, {Dim(1), x->dim(0)}), w, bias});
        return {reshape(b, y, node.result()->shape())};
      }
      Value* y = nullptr;
      if (!w->is_constant()) {
        y = matmul(b, x, w, !transposed);
      } else if (bias != nullptr && !bias->is_constant()) {
        y = b.like(node, {x, w, nullptr});
      } else {
        return {};
      }
      return {bias == nullptr ? y : add(b, y, bias)};
    },
};

}  // namespace downhaul::xnnpack

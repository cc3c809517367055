// layer_norm(x) * γ → layer_norm(x, γ), and + β → its bias, when they have the normalized shape and
// the norm has no such part yet and no other use.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  const bool is_mul = node.is(ops::kMul);
  if (!is_mul && !node.is(ops::kAdd)) return {};
  Value* norm = node.operand(0);
  Value* c = node.operand(1);
  if (!is_op(norm, ops::kLayerNorm) || !norm->has_one_use() || !c->is_constant()) return {};
  Node& source = *norm->producer();
  // Scaling after a bias was added would have to scale the bias too.
  if (source.operand(2) != nullptr || (is_mul && source.operand(1) != nullptr)) return {};
  if (!(c->shape() == shape_of(source.ints("normalized_shape")))) return {};
  return {
      b.like(source, {source.operand(0), is_mul ? c : source.operand(1), is_mul ? nullptr : c})};
}

}  // namespace

const Rewrite kFoldAffineIntoLayerNorm = {
    .name = "fold_affine_into_layer_norm",
    .apply = apply,
};

}  // namespace downhaul::rewrites

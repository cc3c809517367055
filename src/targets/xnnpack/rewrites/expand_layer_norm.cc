// layer_norm(x) → c·rsqrt(mean(c²) + eps)·γ + β, c = x - mean(x). Both means are products with a
// constant row of 1/N; eps is the bias of the second one.
#include "ops/ops.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

Value* normalized_last(Builder& b, Value* x, double eps) {
  if (x == nullptr) return nullptr;
  const double share = 1 / static_cast<double>(x->dim(x->rank() - 1).value());
  Value* centered = sub(b, x, sum_last(b, x, share));
  Value* variance = sum_last(b, square(b, centered), share, eps);
  return mul(b, centered, b.op(ops::kRsqrt, {variance}));
}

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* x = node.operand("input");
  if (!is_f32(x)) return {};
  const size_t kept = x->shape().size() - node.ints("normalized_shape").size();
  const Dim width = product(x->shape(), kept, x->shape().size());
  if (!width.is_static()) return {};
  // One dimension to normalize, and at least one before it.
  Shape flat(x->shape().begin(), x->shape().begin() + static_cast<std::ptrdiff_t>(kept));
  if (flat.empty()) flat.push_back(Dim(1));
  flat.push_back(width);
  Value* y = reshape(b, normalized_last(b, reshape(b, x, flat), node.f("eps")), x->shape());
  if (node.operand("weight") != nullptr) y = mul(b, y, node.operand("weight"));
  if (node.operand("bias") != nullptr) y = add(b, y, node.operand("bias"));
  return {y};
}

}  // namespace

const Rewrite kExpandLayerNorm = {
    .name = "xnn_expand_layer_norm",
    .root = &ops::kLayerNorm,
    .apply = apply,
};

}  // namespace downhaul::xnnpack

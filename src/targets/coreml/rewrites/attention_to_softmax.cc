// attention(q, k, v, mask) → softmax(q·scale · kᵀ + mask) · v
// A bool mask is added as a finite number: minus infinity in halves makes a row without keys NaN.
// Such a row averages all values here, where the IR gives 0.
#include <cmath>

#include "ops/ops.h"
#include "passes/values.h"
#include "targets/coreml/rewrites/rewrites.h"

namespace downhaul::coreml {

namespace {

Value* causal_mask(Builder& b, int64_t queries, int64_t keys) {
  Tensor mask(DType::kF32, {queries, keys});
  for (int64_t q = 0; q < queries; ++q) {
    for (int64_t k = q + 1; k < keys; ++k) mask.set(q * keys + k, kMasked);
  }
  return b.constant(std::move(mask), "causal_mask");
}

std::vector<Value*> expand(Node& node, Builder& b) {
  Value* query = node.operand("query");
  Value* key = node.operand("key");
  if (!query->type().is_static() || !key->type().is_static()) return {};
  const int64_t width = query->shape().back().value();
  const double scale =
      node.has_attr("scale") ? node.f("scale") : 1 / std::sqrt(static_cast<double>(width));
  Value* q = b.op(ops::kMul, {query, b.scalar(query->dtype(), scale)});
  Value* scores = b.op(ops::kMatmul, {q, key}, {{"transpose_other", true}});
  if (Value* mask = node.operand("mask")) {
    if (mask->dtype() == DType::kBool) {
      mask = b.op(ops::kCast, {b.op(ops::kLogicalNot, {mask})}, {{"dtype", query->dtype()}});
      mask = b.op(ops::kMul, {mask, b.scalar(query->dtype(), kMasked)});
    }
    scores = b.op(ops::kAdd, {scores, mask});
  } else if (node.b("is_causal")) {
    const size_t rank = query->shape().size();
    scores = b.op(ops::kAdd, {scores, causal_mask(b, query->shape()[rank - 2].value(),
                                                  key->shape()[rank - 2].value())});
  }
  const int64_t last = static_cast<int64_t>(query->shape().size()) - 1;
  Value* weights = b.op(ops::kSoftmax, {scores}, {{"dim", last}});
  return {b.op(ops::kMatmul, {weights, node.operand("value")})};
}

}  // namespace

const Rewrite kAttentionToSoftmax = {
    .name = "attention_to_softmax",
    .root = &ops::kAttention,
    .apply = expand,
};

}  // namespace downhaul::coreml

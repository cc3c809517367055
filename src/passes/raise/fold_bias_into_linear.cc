// linear(x, w) + b → linear(x, w, b) for a constant b [out] and a linear without bias that has no
// other use. The same for a convolution's channels.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* product = node.operand(0);
  Value* bias = node.operand(1);
  const bool is_linear = is_op(product, ops::kLinear);
  if (!is_linear && !is_op(product, ops::kConv2d) && !is_op(product, ops::kConvTranspose2d)) {
    return {};
  }
  Node& source = *product->producer();
  if (!product->has_one_use() || source.operand(2) != nullptr) return {};
  if (!(product->type() == node.result()->type())) return {};
  const int64_t axis = is_linear || source.s("layout") == "nhwc" ? product->rank() - 1 : 1;
  const auto values = per_channel(bias, product->type(), axis);
  if (!values) return {};
  const auto channels = static_cast<int64_t>(values->size());
  // The same storage where the constant is the bias already.
  Value* vector = bias->constant().num_elements() == channels
                      ? b.constant(bias->constant().reshaped({channels}), bias->name())
                      : b.constant(from_doubles(bias->dtype(), {channels}, *values));
  return {b.like(source, {source.operand(0), source.operand(1), vector})};
}

}  // namespace

const Rewrite kFoldBiasIntoLinear = {
    .name = "fold_bias_into_linear",
    .root = &ops::kAdd,
    .apply = apply,
};

}  // namespace downhaul::rewrites

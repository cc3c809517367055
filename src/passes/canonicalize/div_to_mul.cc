// x / c → x * (1/c) for a floating-point constant, and x / sqrt(y) → x * rsqrt(y): one spelling for
// scales and normalisations. At most one rounding more; powers of two are exact. Half precision
// only for powers of two, where the reciprocal loses nothing.
#include <cmath>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* x = node.operand(0);
  Value* c = node.operand(1);
  if (!is_float(node.result()->dtype()) || x->is_constant()) return {};
  const bool half = c->dtype() == DType::kF16 || c->dtype() == DType::kBF16;
  if (is_op(c, ops::kSqrt) && !half) {
    return {b.op(ops::kMul, {x, b.op(ops::kRsqrt, {c->producer()->operand(0)})})};
  }
  if (!is_small_constant(c)) return {};
  std::vector<double> values = to_doubles(c->constant());
  for (double& v : values) {
    int exponent = 0;
    if (half && std::abs(std::frexp(v, &exponent)) != 0.5) return {};
    v = 1 / v;
    // A zero or an extreme divisor keeps its own rules.
    if (!std::isnormal(v) || std::abs(v) > 1e30 || std::abs(v) < 1e-30) return {};
  }
  return {
      b.op(ops::kMul, {x, b.constant(from_doubles(c->dtype(), c->constant().sizes(), values))})};
}

}  // namespace

const Rewrite kDivToMul = {
    .name = "div_to_mul",
    .root = &ops::kDiv,
    .apply = apply,
};

}  // namespace downhaul::rewrites

// Activations without a node of their own, in terms of those that have one.
#include <cmath>
#include <numbers>

#include "ops/ops.h"
#include "passes/values.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

// gelu(x), tanh form = x/2·(1 + tanh u) = x·sigmoid(2u), u = sqrt(2/π)·(x + 0.044715·x³):
// six nodes, the sigmoid's argument as x·(c·0.044715·x² + c), c = 2·sqrt(2/π).
const Rewrite kExpandGeluTanh = {
    .name = "xnn_expand_gelu_tanh",
    .match = R"(
      %y = gelu(%x, approximate="tanh")
    )",
    .where = [](const Match& m) { return is_f32(m.value("x")); },
    .build = [](const Match& m, Builder& b) -> Value* {
      constexpr double kC = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
      Value* x = m.value("x");
      Value* slope = add(b, mul(b, square(b, x), number(b, kC * 0.044715)), number(b, kC));
      return mul(b, x, b.op(ops::kSigmoid, {mul(b, x, slope)}));
    },
};

// silu(x) = x·sigmoid(x)
const Rewrite kExpandSilu = {
    .name = "xnn_expand_silu",
    .match = R"(
      %y = silu(%x)
    )",
    .where = [](const Match& m) { return is_f32(m.value("x")); },
    .build = [](const Match& m, Builder& b) -> Value* {
      return mul(b, m.value("x"), b.op(ops::kSigmoid, {m.value("x")}));
    },
};

// hardsigmoid(x) = clamp(x/6 + 1/2, 0, 1): the range goes into the addition, and both into a
// convolution before it.
const Rewrite kExpandHardsigmoid = {
    .name = "xnn_expand_hardsigmoid",
    .match = R"(
      %y = hardsigmoid(%x)
    )",
    .where = [](const Match& m) { return is_f32(m.value("x")); },
    .build = [](const Match& m, Builder& b) -> Value* {
      Value* line = add(b, mul(b, m.value("x"), number(b, 1.0 / 6)), number(b, 0.5));
      return clamp(b, line, 0, 1);
    },
};

// prelu(x, w) = max(x, 0) + w·min(x, 0), slopes along dimension 1.
const Rewrite kExpandPrelu = {
    .name = "xnn_expand_prelu",
    .match = R"(
      %y = prelu(%x, %w)
    )",
    .where =
        [](const Match& m) {
          return is_f32(m.value("x")) && m.value("x")->rank() > 2 && is_static(m.value("w")) &&
                 num_elements(m.value("w")->shape()).value() > 1;
        },
    .build = [](const Match& m, Builder& b) -> Value* {
      Value* x = m.value("x");
      Shape per_channel(x->shape().size() - 1, Dim(1));
      per_channel[0] = num_elements(m.value("w")->shape());
      Value* slope = reshape(b, m.value("w"), per_channel);
      Value* positive = clamp(b, x, 0, {});
      return add(b, positive, mul(b, clamp(b, x, {}, 0), slope));
    },
};

// 1/x
const Rewrite kExpandReciprocal = {
    .name = "xnn_expand_reciprocal",
    .match = R"(
      %y = reciprocal(%x)
    )",
    .where = [](const Match& m) { return is_f32(m.value("x")); },
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kDiv, {number(b, 1), m.value("x")});
    },
};

// x^c for the exponents that products and roots express.
const Rewrite kExpandPow = {
    .name = "xnn_expand_pow",
    .match = R"(
      %y = pow(%x, const %c)
    )",
    .where =
        [](const Match& m) {
          return is_f32(m.value("x")) && splat_value(m.value("c")).has_value();
        },
    .build = [](const Match& m, Builder& b) -> Value* {
      Value* x = m.value("x");
      const double exponent = *splat_value(m.value("c"));
      if (exponent == 2) return square(b, x);
      if (exponent == 3) return mul(b, square(b, x), x);
      if (exponent == 4) return square(b, square(b, x));
      if (exponent == 0.5) return b.op(ops::kSqrt, {x});
      if (exponent == -0.5) return b.op(ops::kRsqrt, {x});
      if (exponent == -1) return b.op(ops::kDiv, {number(b, 1), x});
      return nullptr;
    },
};

}  // namespace downhaul::xnnpack

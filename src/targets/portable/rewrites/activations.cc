#include "ops/ops.h"
#include "targets/portable/rewrites/rewrites.h"

// Activations without a kernel, in the fewest kernels that compute them.
namespace downhaul::portable {
namespace {

Value* number(Builder& b, const Value* like, double value) {
  return b.scalar(like->dtype(), value);
}

/// clamp(x + 3, 0, 6)
Value* shifted_relu6(Builder& b, Value* x) {
  Value* shifted = b.op(ops::kAdd, {x, number(b, x, 3)});
  return b.op(ops::kClamp, {shifted}, {{"min", 0.0}, {"max", 6.0}});
}

}  // namespace

// hardsigmoid(x) = clamp(x + 3, 0, 6) / 6
const Rewrite kHardsigmoidToClamp = {
    .name = "hardsigmoid_to_clamp",
    .match = "%y = hardsigmoid(%x)",
    .build = [](const Match& m, Builder& b) -> Value* {
      Value* x = m.value("x");
      return b.op(ops::kDiv, {shifted_relu6(b, x), number(b, x, 6)});
    },
};

// hardswish(x) = x · clamp(x + 3, 0, 6) / 6
const Rewrite kHardswishToClamp = {
    .name = "hardswish_to_clamp",
    .match = "%y = hardswish(%x)",
    .build = [](const Match& m, Builder& b) -> Value* {
      Value* x = m.value("x");
      Value* product = b.op(ops::kMul, {x, shifted_relu6(b, x)});
      return b.op(ops::kDiv, {product, number(b, x, 6)});
    },
};

// silu(x) = x · sigmoid(x)
const Rewrite kSiluToSigmoid = {
    .name = "silu_to_sigmoid",
    .match = "%y = silu(%x)",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kMul, {m.value("x"), b.op(ops::kSigmoid, {m.value("x")})});
    },
};

// mish(x) = x · tanh(softplus(x))
const Rewrite kMishToSoftplus = {
    .name = "mish_to_softplus",
    .match = "%y = mish(%x)",
    .build = [](const Match& m, Builder& b) -> Value* {
      Value* x = m.value("x");
      return b.op(ops::kMul, {x, b.op(ops::kTanh, {b.op(ops::kSoftplus, {x})})});
    },
};

// softplus(x) = x where βx > threshold, else log1p(exp(βx)) / β. The first also hides the overflow
// of exp.
const Rewrite kSoftplusToLog1p = {
    .name = "softplus_to_log1p",
    .match = "%y = softplus(%x, beta=$beta, threshold=$threshold)",
    .build = [](const Match& m, Builder& b) -> Value* {
      Value* x = m.value("x");
      const double beta = m.f("beta");
      Value* scaled = beta == 1 ? x : b.op(ops::kMul, {x, number(b, x, beta)});
      Value* soft = b.op(ops::kLog1p, {b.op(ops::kExp, {scaled})});
      if (beta != 1) soft = b.op(ops::kDiv, {soft, number(b, x, beta)});
      Value* large = b.op(ops::kGt, {scaled, number(b, x, m.f("threshold"))});
      return b.op(ops::kWhere, {large, x, soft});
    },
};

// prelu(x, w) = x where x > 0, else w · x; w per channel (dimension 1)
const Rewrite kPreluToWhere = {
    .name = "prelu_to_where",
    .match = "%y = prelu(%x, %w)",
    .build = [](const Match& m, Builder& b) -> Value* {
      Value* x = m.value("x");
      Value* w = m.value("w");
      if (w->rank() == 1 && x->rank() > 2) {
        Shape shape(static_cast<size_t>(x->rank() - 1), Dim(1));
        shape[0] = w->dim(0);
        w = b.op(ops::kReshape, {w}, {{"shape", shape}});
      } else if (w->rank() == 1 && x->rank() < 2) {
        w = b.op(ops::kReshape, {w}, {{"shape", Shape()}});
      }
      Value* positive = b.op(ops::kGt, {x, number(b, x, 0)});
      return b.op(ops::kWhere, {positive, x, b.op(ops::kMul, {x, w})});
    },
};

// clamp without bounds is the identity
const Rewrite kClampWithoutBound = {
    .name = "clamp_without_bound",
    .match = "%y = clamp(%x, min=none, max=none)",
    .build = [](const Match& m, Builder&) -> Value* { return m.value("x"); },
};

}  // namespace downhaul::portable

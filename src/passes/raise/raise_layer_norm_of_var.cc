// (x - mean) * rsqrt(var(x) + eps) → layer_norm without affine part, var being the biased one
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

Value* build(const Match& m, Builder& b) {
  const Value* x = m.value("x");
  if (m.ints("d").empty()) return nullptr;
  Ints normalized;
  // The reduced dimensions must be the last ones.
  const auto count = static_cast<int64_t>(m.ints("d").size());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t d = x->rank() - count + i;
    if (m.ints("d")[static_cast<size_t>(i)] != d || !x->dim(d).is_static()) return nullptr;
    normalized.push_back(x->dim(d).value());
  }
  const auto eps = splat_value(m.value("eps"));
  if (!eps) return nullptr;
  return b.op(ops::kLayerNorm, {m.value("x"), nullptr, nullptr},
              {{"normalized_shape", normalized}, {"eps", *eps}});
}

}  // namespace

const Rewrite kRaiseLayerNormOfVar = {
    .name = "raise_layer_norm_of_var",
    .match = R"(
      %m = mean(%x, dims=$d, keepdim=true)
      %c = sub(%x, %m)
      %v = var(%x, dims=$d, correction=0, keepdim=true)
      %e = add(%v, const %eps)
      %r = rsqrt(%e)
      %y = mul(%c, %r)
    )",
    .build = build,
};

}  // namespace downhaul::rewrites

// (x - mean) * rsqrt(mean((x - mean)²) + eps) over dimension 1 → channel_norm without affine part
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

Value* build(const Match& m, Builder& b) {
  Value* x = m.value("x");
  // Over the last dimension it is a layer norm.
  if (x->rank() < 3 || m.ints("d") != Ints{1}) return nullptr;
  const auto eps = splat_value(m.value("eps"));
  if (!eps) return nullptr;
  return b.op(ops::kChannelNorm, {x, nullptr, nullptr}, {{"eps", *eps}});
}

}  // namespace

const Rewrite kRaiseChannelNorm = {
    .name = "raise_channel_norm",
    .match = R"(
      %m = mean(%x, dims=$d, keepdim=true)
      %c = sub(%x, %m)
      %s = mul(%c, %c)
      %v = mean(%s, dims=$d, keepdim=true)
      %e = add(%v, const %eps)
      %r = rsqrt(%e)
      %y = mul(%c, %r)
    )",
    .build = build,
};

}  // namespace downhaul::rewrites

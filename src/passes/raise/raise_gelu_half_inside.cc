// x · (0.5 · (1 + erf(x / √2))) → gelu(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseGeluHalfInside = {
    .name = "raise_gelu_half_inside",
    .match = R"(
      %a = mul(%x, 0.7071067811865476)
      %e = erf(%a)
      %p = add(%e, 1.0)
      %z = mul(%p, 0.5)
      %y = mul(%x, %z)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kGelu, {m.value("x")}, {{"approximate", std::string("none")}});
    },
};

}  // namespace downhaul::rewrites

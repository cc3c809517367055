// x · (1 + erf(x / √2)) · 0.5 → gelu(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseGeluHalfLast = {
    .name = "raise_gelu_half_last",
    .match = R"(
      %a = mul(%x, 0.7071067811865476)
      %e = erf(%a)
      %p = add(%e, 1.0)
      %z = mul(%x, %p)
      %y = mul(%z, 0.5)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kGelu, {m.value("x")}, {{"approximate", std::string("none")}});
    },
};

}  // namespace downhaul::rewrites

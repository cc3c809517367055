// 0.5 x · (1 + erf(x / √2)) → gelu(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseGelu = {
    .name = "raise_gelu",
    .match = R"(
      %h = mul(%x, 0.5)
      %a = mul(%x, 0.7071067811865476)
      %e = erf(%a)
      %p = add(%e, 1.0)
      %y = mul(%h, %p)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kGelu, {m.value("x")}, {{"approximate", std::string("none")}});
    },
};

}  // namespace downhaul::rewrites

// clamp(x + 3, 0, 6) / 6 → hardsigmoid(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseHardsigmoid = {
    .name = "raise_hardsigmoid",
    .match = R"(
      %a = add(%x, 3.0)
      %c = clamp(%a, min=0.0, max=6.0)
      %y = mul(%c, 0.16666666666666666)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kHardsigmoid, {m.value("x")});
    },
};

}  // namespace downhaul::rewrites

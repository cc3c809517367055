// x · clamp(x + 3, 0, 6) / 6 → hardswish(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseHardswishSixthLast = {
    .name = "raise_hardswish_sixth_last",
    .match = R"(
      %a = add(%x, 3.0)
      %c = clamp(%a, min=0.0, max=6.0)
      %z = mul(%x, %c)
      %y = mul(%z, 0.16666666666666666)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kHardswish, {m.value("x")});
    },
};

}  // namespace downhaul::rewrites

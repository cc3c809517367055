// x · hardsigmoid(x) → hardswish(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseHardswish = {
    .name = "raise_hardswish",
    .match = R"(
      %s = hardsigmoid(%x)
      %y = mul(%x, %s)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kHardswish, {m.value("x")});
    },
};

}  // namespace downhaul::rewrites

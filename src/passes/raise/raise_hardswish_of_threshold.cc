// where(x >= -3, x, 0) · hardsigmoid(x) → hardswish(x): below -3 the second factor is 0 anyway.
// Core ML's converter spells it so.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseHardswishOfThreshold = {
    .name = "raise_hardswish_of_threshold",
    .match = R"(
      %o = ge(%x, -3)
      %t = where(%o, %x, 0)
      %s = hardsigmoid(%x)
      %y = mul(%t, %s)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kHardswish, {m.value("x")});
    },
};

}  // namespace downhaul::rewrites

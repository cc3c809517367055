// x · sigmoid(x) → silu(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseSilu = {
    .name = "raise_silu",
    .match = R"(
      %s = sigmoid(%x)
      %y = mul(%x, %s)
    )",
    .build = [](const Match& m, Builder& b) -> Value* { return b.op(ops::kSilu, {m.value("x")}); },
};

}  // namespace downhaul::rewrites

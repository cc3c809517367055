// 1 / sqrt(x) → rsqrt(x), which targets have as one node
#include "ops/ops.h"
#include "passes/passes.h"

namespace downhaul::rewrites {

const Rewrite kRaiseRsqrt = {
    .name = "raise_rsqrt",
    .match = R"(
      %s = sqrt(%x)
      %y = reciprocal(%s)
    )",
    .build = [](const Match& m, Builder& b) -> Value* { return b.op(ops::kRsqrt, {m.value("x")}); },
};

}  // namespace downhaul::rewrites

// x · tanh(softplus(x)) → mish(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseMish = {
    .name = "raise_mish",
    .match = R"(
      %s = softplus(%x, beta=1.0, threshold=20.0)
      %t = tanh(%s)
      %y = mul(%x, %t)
    )",
    .build = [](const Match& m, Builder& b) -> Value* { return b.op(ops::kMish, {m.value("x")}); },
};

}  // namespace downhaul::rewrites

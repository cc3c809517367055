// exp(x - max x) / sum exp(x - max x) → softmax(x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseSoftmax = {
    .name = "raise_softmax",
    .match = R"(
      %m = amax(%x, dims=$d, keepdim=true)
      %c = sub(%x, %m)
      %e = exp(%c)
      %s = sum(%e, dims=$d, keepdim=true)
      %y = div(%e, %s)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      if (m.ints("d").size() != 1) return nullptr;
      return b.op(ops::kSoftmax, {m.value("x")}, {{"dim", m.ints("d")[0]}});
    },
};

}  // namespace downhaul::rewrites

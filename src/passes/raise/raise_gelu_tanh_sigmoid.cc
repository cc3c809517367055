// The tanh form of gelu by way of (1 + tanh(u)) / 2 = sigmoid(2u):
// x · sigmoid(x · (x² · 2·0.044715·√(2/π) + 2·√(2/π)))
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseGeluTanhSigmoid = {
    .name = "raise_gelu_tanh_sigmoid",
    .match = R"(
      %s = mul(%x, %x)
      %k = mul(%s, 0.07135481282742474)
      %o = add(%k, 1.5957691216057308)
      %u = mul(%x, %o)
      %g = sigmoid(%u)
      %y = mul(%x, %g)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kGelu, {m.value("x")}, {{"approximate", std::string("tanh")}});
    },
};

}  // namespace downhaul::rewrites

// The tanh form of gelu factored as x·√(2/π) · (1 + 0.044715·x·x)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseGeluTanhFactored = {
    .name = "raise_gelu_tanh_factored",
    .match = R"(
      %h = mul(%x, 0.5)
      %u = mul(%x, 0.7978845608028654)
      %k = mul(%x, 0.044715)
      %q = mul(%k, %x)
      %o = add(%q, 1.0)
      %i = mul(%u, %o)
      %t = tanh(%i)
      %p = add(%t, 1.0)
      %y = mul(%h, %p)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kGelu, {m.value("x")}, {{"approximate", std::string("tanh")}});
    },
};

}  // namespace downhaul::rewrites

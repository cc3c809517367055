// 0.5 x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) → gelu(x, approximate="tanh"), as GPT-2 spells it
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseGeluTanh = {
    .name = "raise_gelu_tanh",
    .match = R"(
      %h = mul(%x, 0.5)
      %c = pow(%x, 3.0)
      %k = mul(%c, 0.044715)
      %s = add(%x, %k)
      %i = mul(%s, 0.7978845608028654)
      %t = tanh(%i)
      %p = add(%t, 1.0)
      %y = mul(%h, %p)
    )",
    .build = [](const Match& m, Builder& b) -> Value* {
      return b.op(ops::kGelu, {m.value("x")}, {{"approximate", std::string("tanh")}});
    },
};

}  // namespace downhaul::rewrites

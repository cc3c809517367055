// The tanh form of gelu with the cube written as x·x·x
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

const Rewrite kRaiseGeluTanhCube = {
    .name = "raise_gelu_tanh_cube",
    .match = R"(
      %h = mul(%x, 0.5)
      %q = mul(%x, %x)
      %c = mul(%q, %x)
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

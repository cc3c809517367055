// channel_matmul(a, b) → matmul with the rows in front of the channels, and back.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  const auto swapped = [&](Value* v) {
    return b.op(ops::kPermute, {v}, {{"dims", Ints{0, 2, 1, 3}}});
  };
  return {swapped(b.op(ops::kMatmul, {swapped(node.operand(0)), swapped(node.operand(1))}))};
}

}  // namespace

const Rewrite kChannelMatmulToMatmul = {
    .name = "channel_matmul_to_matmul",
    .root = &ops::kChannelMatmul,
    .apply = apply,
};

}  // namespace downhaul::rewrites

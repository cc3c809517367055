// A permute that only moves dimensions of size 1 leaves the data in place: it is a reshape.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  int64_t last = -1;
  for (const int64_t d : node.ints("dims")) {
    if (node.operand(0)->dim(d) == Dim(1)) continue;
    if (d < last) return {};
    last = d;
  }
  return {b.op(ops::kReshape, {node.operand(0)}, {{"shape", Dims(node.result()->shape())}})};
}

}  // namespace

const Rewrite kPermuteToReshape = {
    .name = "permute_to_reshape",
    .root = &ops::kPermute,
    .apply = apply,
};

}  // namespace downhaul::rewrites

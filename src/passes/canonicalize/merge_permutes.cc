// permute(permute(x, p), q) → permute(x, p∘q)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!is_op(node.operand(0), ops::kPermute)) return {};
  const Node& inner = *node.operand(0)->producer();
  Ints dims;
  for (const int64_t d : node.ints("dims")) {
    dims.push_back(inner.ints("dims")[static_cast<size_t>(d)]);
  }
  return {b.op(ops::kPermute, {inner.operand(0)}, {{"dims", dims}})};
}

}  // namespace

const Rewrite kMergePermutes = {
    .name = "merge_permutes",
    .root = &ops::kPermute,
    .apply = apply,
};

}  // namespace downhaul::rewrites

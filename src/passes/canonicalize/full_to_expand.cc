// full(size, value) → expand(scalar constant): broadcasting consumers then take the scalar.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  return {filled(b, node.result()->type(), node.f("value"))};
}

}  // namespace

const Rewrite kFullToExpand = {
    .name = "full_to_expand",
    .root = &ops::kFull,
    .apply = apply,
};

}  // namespace downhaul::rewrites

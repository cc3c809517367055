// Operators that do nothing to their operand: a cast to its own dtype, a reshape or expand to its
// own shape, a permute that keeps the order, a slice of everything, a concat of one, a pad by
// nothing.
#include <algorithm>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

bool is_iota(const Ints& dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool all_equal(const Ints& values, int64_t to) {
  return std::all_of(values.begin(), values.end(), [to](int64_t v) { return v == to; });
}

bool is_identity(const Node& node) {
  if (node.is(ops::kCast) || node.is(ops::kReshape) || node.is(ops::kExpand)) {
    return node.operand(0)->type() == node.result()->type();
  }
  if (node.is(ops::kPermute)) return is_iota(node.ints("dims"));
  if (node.is(ops::kSlice)) {
    return node.i("step") == 1 && node.operand(0)->type() == node.result()->type();
  }
  if (node.is(ops::kConcat)) return node.operands().size() == 1;
  if (node.is(ops::kPad))
    return all_equal(node.ints("before"), 0) && all_equal(node.ints("after"), 0);
  if (node.is(ops::kRepeat)) {
    return all_equal(node.ints("repeats"), 1) && node.operand(0)->type() == node.result()->type();
  }
  if (node.is(ops::kRoll)) return all_equal(node.ints("shifts"), 0);
  if (node.is(ops::kFlip)) return node.ints("dims").empty();
  return false;
}

std::vector<Value*> apply(Node& node, Builder&) {
  if (!is_identity(node)) return {};
  return {node.operand(0)};
}

}  // namespace

const Rewrite kRemoveIdentity = {
    .name = "remove_identity",
    .apply = apply,
};

}  // namespace downhaul::rewrites

// A slice of a concat that lies inside one of its parts is a slice of that part.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!is_op(node.operand(0), ops::kConcat)) return {};
  const Node& concat = *node.operand(0)->producer();
  const int64_t axis = node.axis("dim", node.result()->rank());
  if (concat.axis("dim", node.result()->rank()) != axis) return {};
  Dim begin(0);
  for (Value* part : concat.list()) {
    const Dim end = begin + part->dim(axis);
    // Bounds of the difference: sizes may be dynamic, the relation must hold for all of them.
    if ((node.dim("start") - begin).min() >= 0 && (end - node.dim("end")).min() >= 0) {
      return {b.op(ops::kSlice, {part},
                   {{"dim", axis},
                    {"start", node.dim("start") - begin},
                    {"end", node.dim("end") - begin},
                    {"step", node.i("step")}})};
    }
    begin = end;
  }
  return {};
}

}  // namespace

const Rewrite kSliceOfConcat = {
    .name = "slice_of_concat",
    .root = &ops::kSlice,
    .apply = apply,
};

}  // namespace downhaul::rewrites

// slice(slice(x)) along one dimension → one slice. (Slices along different dimensions stay.)
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!is_op(node.operand(0), ops::kSlice)) return {};
  const Node& inner = *node.operand(0)->producer();
  const int64_t rank = node.result()->rank();
  if (inner.axis("dim", rank) != node.axis("dim", rank)) return {};
  const Dim step(inner.i("step"));
  const Dim start = inner.dim("start") + node.dim("start") * step;
  // The last element is at (end - 1) * step; an empty slice stays empty.
  Dim end = inner.dim("start") + node.dim("end") * step;
  if (inner.i("step") != 1) {
    if (!node.dim("end").is_static() || !start.is_static()) return {};
    if (node.dim("end").value() > node.dim("start").value()) {
      end = inner.dim("start") + (node.dim("end") - Dim(1)) * step + Dim(1);
    } else {
      end = start;
    }
  }
  return {b.op(ops::kSlice, {inner.operand(0)},
               {{"dim", node.i("dim")},
                {"start", start},
                {"end", end},
                {"step", inner.i("step") * node.i("step")}})};
}

}  // namespace

const Rewrite kMergeSlices = {
    .name = "merge_slices",
    .root = &ops::kSlice,
    .apply = apply,
};

}  // namespace downhaul::rewrites

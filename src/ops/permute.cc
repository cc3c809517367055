#include "ops/axes.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

namespace downhaul::ops {

namespace {

TypesResult infer_permute(const Node& node) {
  const TensorType& self = node.type("self");
  const Ints& dims = node.ints("dims");
  if (static_cast<int64_t>(dims.size()) != self.rank()) {
    return invalid_graph(cat("dims: expected ", self.rank(), " entries, found ", dims.size()));
  }
  DH_TRY(require_axes(node, "dims", self.rank()));
  Shape shape;
  for (const int64_t d : dims) shape.push_back(self.shape[static_cast<size_t>(d)]);
  return one_type(self.dtype, std::move(shape));
}

AxisMap permute_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const Ints& dims = node.ints("dims");
  for (size_t i = 0; i < dims.size(); ++i) {
    map_axis_always(map, 0, dims[i], static_cast<int64_t>(i));
  }
  return map;
}

}  // namespace

// permute: dimension i of the result is dimension dims[i] of self.
// Errors: kInvalidGraph unless dims is a permutation of 0, …, rank-1. Source: aten::permute.
const OpDef kPermute = {
    .name = "permute",
    .schema = "permute(Tensor self, int[] dims) -> Tensor",
    .infer = infer_permute,
    .axes = permute_axes,
    .reference = [](RefCall& call) -> Status {
      call.out() = permuted(call.in("self"), call.node.ints("dims"));
      return {};
    },
};

}  // namespace downhaul::ops

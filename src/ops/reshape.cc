#include "ops/axes.h"
#include "ops/infer.h"
#include "ops/ops.h"

namespace downhaul::ops {

namespace {

TypesResult infer_reshape(const Node& node) {
  DH_TRY(require_sizes(node, "shape"));
  const TensorType& self = node.type("self");
  const Dims& shape = node.dims("shape");
  const Dim have = num_elements(self.shape);
  const Dim want = num_elements(shape);
  if (!(have == want)) {
    return invalid_graph(cat("shape: expected ", have.str(), " elements as in ", self.str(),
                             ", found ", want.str(), " in ", str(shape)));
  }
  return one_type(self.dtype, shape);
}

/// Dimensions of equal size with equally many elements before them, and so behind them, are the
/// same dimension. Walks both shapes from the outside.
AxisMap reshape_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const Shape& from = node.operand(0)->shape();
  const Shape& to = node.result()->shape();
  // With an empty tensor every product is 0 and says nothing.
  for (const Dim& d : from) {
    if (d == Dim(0)) return map;
  }
  std::vector<Dim> before_from{1};
  std::vector<Dim> before_to{1};
  for (const Dim& d : from) before_from.push_back(before_from.back() * d);
  for (const Dim& d : to) before_to.push_back(before_to.back() * d);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == Dim(1)) continue;
    for (size_t j = 0; j < to.size(); ++j) {
      if (from[i] == to[j] && before_from[i] == before_to[j]) {
        map_axis_always(map, 0, static_cast<int64_t>(i), static_cast<int64_t>(j));
      }
    }
  }
  return map;
}

}  // namespace

// reshape: the same elements in row-major order under another shape. No -1: readers have resolved
// it. Errors: kInvalidGraph when the numbers of elements differ, for some value of the symbols.
// Source: aten::view, reshape, flatten, unflatten, squeeze, unsqueeze.
const OpDef kReshape = {
    .name = "reshape",
    .schema = "reshape(Tensor self, dim[] shape) -> Tensor",
    .infer = infer_reshape,
    .axes = reshape_axes,
    .reference = [](RefCall& call) -> Status {
      // Equal polynomials of bounded sizes agree; saturated ones need not.
      const Tensor& self = call.in("self");
      if (self.num_elements() != call.out().num_elements()) {
        return invalid_argument(cat("shape: expected ", self.num_elements(), " elements, found ",
                                    call.out().num_elements()));
      }
      call.out() = self.reshaped(call.out().sizes());
      return {};
    },
};

}  // namespace downhaul::ops

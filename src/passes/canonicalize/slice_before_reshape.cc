// slice(reshape(x)) → reshape(slice(x)) when only slices read the reshaped value and the sliced
// dimension is kept by the reshape, or is the outermost of those that a dimension of x is split
// into.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

struct Source {
  int64_t dim;
  Dim stride;  ///< elements of x's dimension per element of the sliced one
};

/// Where dimension `axis` of `to` lies in `from`.
std::optional<Source> find_source(const Shape& from, const Shape& to, size_t axis) {
  Dim before(1);
  for (size_t d = 0; d < axis; ++d) before = before * to[d];
  Dim prefix(1);
  for (size_t d = 0; d < from.size(); ++d) {
    if (prefix == before && !(from[d] == Dim(1))) {
      const auto stride = from[d].divided_by(to[axis]);
      if (!stride) return std::nullopt;
      // The rest of x's dimension must be whole dimensions of the result.
      Dim rest(1);
      for (size_t t = axis + 1; t < to.size() && !(rest == *stride); ++t) rest = rest * to[t];
      if (!(rest == *stride)) return std::nullopt;
      return Source{static_cast<int64_t>(d), *stride};
    }
    prefix = prefix * from[d];
  }
  return std::nullopt;
}

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* reshaped = node.operand(0);
  if (!is_op(reshaped, ops::kReshape) || !only_sliced(reshaped) || node.i("step") != 1) return {};
  Value* x = reshaped->producer()->operand(0);
  const auto axis = static_cast<size_t>(node.axis("dim", reshaped->rank()));
  const auto source = find_source(x->shape(), reshaped->shape(), axis);
  if (!source) return {};
  Value* part = b.op(ops::kSlice, {x},
                     {{"dim", source->dim},
                      {"start", node.dim("start") * source->stride},
                      {"end", node.dim("end") * source->stride}});
  return {b.op(ops::kReshape, {part}, {{"shape", Dims(node.result()->shape())}})};
}

}  // namespace

const Rewrite kSliceBeforeReshape = {
    .name = "slice_before_reshape",
    .root = &ops::kSlice,
    .apply = apply,
};

}  // namespace downhaul::rewrites

#include "ops/axes.h"
#include "ops/infer.h"
#include "ops/ops.h"

namespace downhaul::ops {

// cast: every element converted to `dtype`: floats to integers truncate towards zero, everything to
// bool is != 0, to f16 and bf16 rounds to nearest even. Any dtype to any.
// Source: aten::to.dtype, aten::_to_copy.
const OpDef kCast = {
    .name = "cast",
    .schema = "cast(Tensor self, dtype dtype) -> Tensor",
    .infer = [](const Node& node) -> TypesResult {
      return one_type(node.dtype("dtype"), node.type("self").shape);
    },
    .axes = elementwise_axes,
    .reference = [](RefCall& call) -> Status {
      call.out() = call.in("self").cast(call.out().dtype());
      return {};
    },
};

}  // namespace downhaul::ops

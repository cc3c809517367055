#include "ops/elementwise.h"
#include "ops/ops.h"

// Comparisons of two elements of the same dtype, with broadcasting; result bool. A comparison with
// NaN is false, except ne. Errors: kInvalidGraph for unequal dtypes or shapes that do not
// broadcast. Source: aten::<name>.Tensor.
namespace downhaul::ops {

const OpDef kEq = {
    .name = "eq",
    .schema = "eq(Tensor self, Tensor other) -> Tensor",
    .infer = infer_compare,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) { return map_two_any(c, [](auto a, auto b) -> bool { return a == b; }); },
    .commutative = true,
};

const OpDef kNe = {
    .name = "ne",
    .schema = "ne(Tensor self, Tensor other) -> Tensor",
    .infer = infer_compare,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) { return map_two_any(c, [](auto a, auto b) -> bool { return a != b; }); },
    .commutative = true,
};

const OpDef kLt = {
    .name = "lt",
    .schema = "lt(Tensor self, Tensor other) -> Tensor",
    .infer = infer_compare,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) { return map_two_any(c, [](auto a, auto b) -> bool { return a < b; }); },
};

const OpDef kLe = {
    .name = "le",
    .schema = "le(Tensor self, Tensor other) -> Tensor",
    .infer = infer_compare,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) { return map_two_any(c, [](auto a, auto b) -> bool { return a <= b; }); },
};

const OpDef kGt = {
    .name = "gt",
    .schema = "gt(Tensor self, Tensor other) -> Tensor",
    .infer = infer_compare,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) { return map_two_any(c, [](auto a, auto b) -> bool { return a > b; }); },
};

const OpDef kGe = {
    .name = "ge",
    .schema = "ge(Tensor self, Tensor other) -> Tensor",
    .infer = infer_compare,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) { return map_two_any(c, [](auto a, auto b) -> bool { return a >= b; }); },
};

}  // namespace downhaul::ops

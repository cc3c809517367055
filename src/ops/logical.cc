#include "ops/elementwise.h"
#include "ops/ops.h"

// Logic of two elements with broadcasting. `logical_*` ask whether an element differs from zero and
// give bool; `bitwise_*` work on the bits of integers, and are the logical ones for bool. Errors:
// kInvalidGraph for unequal dtypes, shapes that do not broadcast, or bits of floats.
// Source: aten::<name>.
namespace downhaul::ops {

const OpDef kLogicalAnd = {
    .name = "logical_and",
    .schema = "logical_and(Tensor self, Tensor other) -> Tensor",
    .infer = infer_compare,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_any(c, [](auto a, auto b) -> bool {
            return (a != decltype(a)(0)) && (b != decltype(b)(0));
          });
        },
    .commutative = true,
};

const OpDef kLogicalOr = {
    .name = "logical_or",
    .schema = "logical_or(Tensor self, Tensor other) -> Tensor",
    .infer = infer_compare,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_any(c, [](auto a, auto b) -> bool {
            return (a != decltype(a)(0)) || (b != decltype(b)(0));
          });
        },
    .commutative = true,
};

const OpDef kLogicalXor = {
    .name = "logical_xor",
    .schema = "logical_xor(Tensor self, Tensor other) -> Tensor",
    .infer = infer_compare,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_any(c, [](auto a, auto b) -> bool {
            return (a != decltype(a)(0)) != (b != decltype(b)(0));
          });
        },
    .commutative = true,
};

const OpDef kBitwiseAnd = {
    .name = "bitwise_and",
    .schema = "bitwise_and(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary_integer,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_integers(
              c, [](auto a, auto b) -> decltype(a) { return static_cast<decltype(a)>(a & b); });
        },
    .commutative = true,
};

const OpDef kBitwiseOr = {
    .name = "bitwise_or",
    .schema = "bitwise_or(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary_integer,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_integers(
              c, [](auto a, auto b) -> decltype(a) { return static_cast<decltype(a)>(a | b); });
        },
    .commutative = true,
};

const OpDef kBitwiseXor = {
    .name = "bitwise_xor",
    .schema = "bitwise_xor(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary_integer,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_integers(
              c, [](auto a, auto b) -> decltype(a) { return static_cast<decltype(a)>(a ^ b); });
        },
    .commutative = true,
};

}  // namespace downhaul::ops

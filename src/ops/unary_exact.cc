#include <cmath>
#include <type_traits>

#include "ops/elementwise.h"
#include "ops/ops.h"

// Functions of one element that are exact in every dtype. Source: aten::<name>.
namespace downhaul::ops {

namespace {

/// A rounding function: integers stay what they are.
template <typename F>
Status round_with(RefCall& call, F f) {
  return map_number(call, [&](auto x) {
    if constexpr (std::is_floating_point_v<decltype(x)>) {
      return f(x);
    } else {
      return x;
    }
  });
}

TypesResult infer_to_bool(const Node& node) {
  return one_type(DType::kBool, node.type("self").shape);
}

/// A test of floating-point values: false for integers and bool.
template <typename F>
Status test_float(RefCall& call, F f) {
  return map_any(call, [&](auto x) -> bool {
    if constexpr (std::is_floating_point_v<decltype(x)>) {
      return f(x);
    } else {
      return false;
    }
  });
}

TypesResult infer_bitwise_not(const Node& node) {
  if (is_float(node.type("self").dtype)) {
    return invalid_graph(
        cat("self: expected an integer dtype or bool, found ", node.type("self").str()));
  }
  return infer_same(node);
}

}  // namespace

// abs: |self|; integers and floats. The lowest integer stays itself.
const OpDef kAbs = {
    .name = "abs",
    .schema = "abs(Tensor self) -> Tensor",
    .infer = infer_same_number,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_number(c, [](auto x) {
            using T = decltype(x);
            if constexpr (std::is_floating_point_v<T>) {
              return std::abs(x);
            } else {
              return x < T(0) ? wrapping(T(0), x, [](auto a, auto b) { return a - b; }) : x;
            }
          });
        },
};

// bitwise_not: every bit flipped; logical for bool. Errors: kInvalidGraph for floats.
const OpDef kBitwiseNot = {
    .name = "bitwise_not",
    .schema = "bitwise_not(Tensor self) -> Tensor",
    .infer = infer_bitwise_not,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& call) {
          return for_integer_or_bool(call, call.in(0).dtype(), []<typename T>(RefCall& c) {
            return map_one<T>(c, [](T x) -> T {
              if constexpr (std::is_same_v<T, bool>) {
                return !x;
              } else {
                return static_cast<T>(~x);
              }
            });
          });
        },
};

const OpDef kCeil = {
    .name = "ceil",
    .schema = "ceil(Tensor self) -> Tensor",
    .infer = infer_same_number,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return round_with(c, [](auto x) { return std::ceil(x); }); },
};

const OpDef kFloor = {
    .name = "floor",
    .schema = "floor(Tensor self) -> Tensor",
    .infer = infer_same_number,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return round_with(c, [](auto x) { return std::floor(x); }); },
};

// isinf: true where self is an infinity of either sign; any dtype, result bool.
const OpDef kIsInf = {
    .name = "isinf",
    .schema = "isinf(Tensor self) -> Tensor",
    .infer = infer_to_bool,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return test_float(c, [](auto x) { return std::isinf(x); }); },
};

// isnan: true where self is not a number; any dtype, result bool.
const OpDef kIsNan = {
    .name = "isnan",
    .schema = "isnan(Tensor self) -> Tensor",
    .infer = infer_to_bool,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return test_float(c, [](auto x) { return std::isnan(x); }); },
};

// logical_not: self == 0; any dtype, result bool.
const OpDef kLogicalNot = {
    .name = "logical_not",
    .schema = "logical_not(Tensor self) -> Tensor",
    .infer = infer_to_bool,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) { return map_any(c, [](auto x) -> bool { return x == decltype(x)(0); }); },
};

// neg: -self; integers wrap.
const OpDef kNeg = {
    .name = "neg",
    .schema = "neg(Tensor self) -> Tensor",
    .infer = infer_same_number,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_number(c, [](auto x) {
            using T = decltype(x);
            if constexpr (std::is_floating_point_v<T>) {
              return -x;
            } else {
              return wrapping(T(0), x, [](auto a, auto b) { return a - b; });
            }
          });
        },
};

// round: to the nearest integer, halves to the even one.
const OpDef kRound = {
    .name = "round",
    .schema = "round(Tensor self) -> Tensor",
    .infer = infer_same_number,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return round_with(c, [](auto x) { return std::nearbyint(x); }); },
};

// sign: -1, 0 or 1; NaN gives 0.
const OpDef kSign = {
    .name = "sign",
    .schema = "sign(Tensor self) -> Tensor",
    .infer = infer_same_number,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_number(c, [](auto x) {
            using T = decltype(x);
            return static_cast<T>((T(0) < x) - (x < T(0)));
          });
        },
};

const OpDef kTrunc = {
    .name = "trunc",
    .schema = "trunc(Tensor self) -> Tensor",
    .infer = infer_same_number,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return round_with(c, [](auto x) { return std::trunc(x); }); },
};

}  // namespace downhaul::ops

#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/elementwise.h"
#include "ops/ops.h"

// Arithmetic of two elements with broadcasting. Both operands have the same dtype, which is the
// result's; integers wrap. Errors: kInvalidGraph for unequal dtypes or shapes that do not
// broadcast. Source: aten::<name>.Tensor; scalars arrive as rank-0 tensors, `alpha` as a
// multiplication.
namespace downhaul::ops {

namespace {

template <typename T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;

/// A division of integers; the kernel below runs only after zero divisors were refused.
Status require_no_zero_divisor(RefCall& call) {
  const Tensor& other = call.in("other");
  if (is_float(other.dtype())) return {};
  for (int64_t i = 0, n = other.num_elements(); i < n; ++i) {
    if (other.int_at(i) == 0) return invalid_argument("other: integer division by zero");
  }
  return {};
}

/// True for the one quotient that does not fit: lowest / -1 (it wraps to the lowest; remainder 0).
template <typename T>
bool overflows(T a, T b) {
  return b == T(-1) && a == std::numeric_limits<T>::min();
}

/// Largest integer not above a / b. Floats: from the exact remainder, so that 1.0 // 0.1 = 9, as
/// Python defines it.
template <typename T>
T floor_divide(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (b == T(0)) return a / b;
    T rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != T(0) && (b < T(0)) != (rest < T(0))) quotient -= T(1);
    if (quotient == T(0)) return std::copysign(T(0), a / b);
    const T whole = std::floor(quotient);
    return quotient - whole > T(0.5) ? whole + T(1) : whole;
  } else {
    if (overflows(a, b)) return a;
    const T quotient = static_cast<T>(a / b);
    return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
  }
}

/// What is left after truncated division; sign of a.
template <typename T>
T remainder_towards_zero(T a, T b) {
  if constexpr (kIsFloat<T>) {
    return std::fmod(a, b);
  } else {
    return overflows(a, b) ? T(0) : static_cast<T>(a % b);
  }
}

/// What is left after floored division; sign of b.
template <typename T>
T remainder_of_floor(T a, T b) {
  const T rest = remainder_towards_zero(a, b);
  return rest != T(0) && (b < T(0)) != (rest < T(0)) ? static_cast<T>(rest + b) : rest;
}

/// Integers by squaring, with wrap-around; a negative exponent gives the truncated quotient.
template <typename T>
T power(T base, T exponent) {
  if constexpr (kIsFloat<T>) {
    return std::pow(base, exponent);
  } else {
    if (exponent < T(0)) {
      if (base == T(1)) return 1;
      if (base == T(-1)) return exponent % 2 == 0 ? T(1) : T(-1);
      return 0;
    }
    uint64_t result = 1;
    auto square = static_cast<uint64_t>(base);
    for (auto e = static_cast<uint64_t>(exponent); e != 0; e >>= 1) {
      if ((e & 1) != 0) result *= square;
      square *= square;
    }
    return static_cast<T>(result);
  }
}

/// NaN wins, as in torch.
template <typename T>
T larger(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return a < b ? b : a;
}

template <typename T>
T smaller(T a, T b) {
  if constexpr (kIsFloat<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return b < a ? b : a;
}

}  // namespace

// add: self + other; bool: or.
const OpDef kAdd = {
    .name = "add",
    .schema = "add(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_any(c, []<typename T>(T a, T b) -> T {
            if constexpr (std::is_same_v<T, bool>) {
              return a || b;
            } else {
              return wrapping(a, b, [](auto x, auto y) { return x + y; });
            }
          });
        },
    .accuracy = Accuracy::kRounding,
    .commutative = true,
};

const OpDef kSub = {
    .name = "sub",
    .schema = "sub(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary_number,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_numbers(c, []<typename T>(T a, T b) -> T {
            return wrapping(a, b, [](auto x, auto y) { return x - y; });
          });
        },
    .accuracy = Accuracy::kRounding,
};

// mul: self · other; bool: and.
const OpDef kMul = {
    .name = "mul",
    .schema = "mul(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_any(c, []<typename T>(T a, T b) -> T {
            if constexpr (std::is_same_v<T, bool>) {
              return a && b;
            } else {
              return wrapping(a, b, [](auto x, auto y) { return x * y; });
            }
          });
        },
    .accuracy = Accuracy::kRounding,
    .commutative = true,
};

// div: the true quotient; floats only (integers are cast first).
const OpDef kDiv = {
    .name = "div",
    .schema = "div(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary_float,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_floats(c, []<typename T>(T a, T b) -> T { return a / b; });
        },
    .accuracy = Accuracy::kRounding,
};

// floor_divide: floor(self / other). Evaluating an integer division by zero is an error.
const OpDef kFloorDivide = {
    .name = "floor_divide",
    .schema = "floor_divide(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary_number,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) -> Status {
      DH_TRY(require_no_zero_divisor(c));
      return map_two_numbers(c, []<typename T>(T a, T b) -> T { return floor_divide(a, b); });
    },
    .accuracy = Accuracy::kRounding,
};

// fmod: self - other · trunc(self / other). Evaluating an integer division by zero is an error.
const OpDef kFmod = {
    .name = "fmod",
    .schema = "fmod(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary_number,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) -> Status {
      DH_TRY(require_no_zero_divisor(c));
      return map_two_numbers(
          c, []<typename T>(T a, T b) -> T { return remainder_towards_zero(a, b); });
    },
    .accuracy = Accuracy::kRounding,
};

// remainder: self - other · floor(self / other). Evaluating an integer division by zero is an
// error.
const OpDef kRemainder = {
    .name = "remainder",
    .schema = "remainder(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary_number,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) -> Status {
      DH_TRY(require_no_zero_divisor(c));
      return map_two_numbers(c, []<typename T>(T a, T b) -> T { return remainder_of_floor(a, b); });
    },
    .accuracy = Accuracy::kRounding,
};

const OpDef kPow = {
    .name = "pow",
    .schema = "pow(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary_number,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_numbers(c, []<typename T>(T a, T b) -> T { return power(a, b); });
        },
    .accuracy = Accuracy::kRounding,
};

// maximum: the larger one; NaN when either is.
const OpDef kMaximum = {
    .name = "maximum",
    .schema = "maximum(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_any(c, []<typename T>(T a, T b) -> T { return larger(a, b); });
        },
    .commutative = true,
};

// minimum: the smaller one; NaN when either is.
const OpDef kMinimum = {
    .name = "minimum",
    .schema = "minimum(Tensor self, Tensor other) -> Tensor",
    .infer = infer_binary,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_two_any(c, []<typename T>(T a, T b) -> T { return smaller(a, b); });
        },
    .commutative = true,
};

}  // namespace downhaul::ops

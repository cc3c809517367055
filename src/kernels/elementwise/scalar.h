#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

/// Arithmetic of one element that vectors have no instruction for, with the meaning of the IR's
/// operators. T is a float type or int64_t, which wraps; narrower integers are computed in it and
/// wrapped once.
namespace downhaul::kernels::scalar {

/// Integers as hardware adds them, without undefined overflow.
template <typename T, typename F>
T wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  } else {
    return f(a, b);
  }
}

/// True for the one quotient that does not fit: lowest / -1 (it wraps to the lowest; remainder 0).
template <std::integral T>
bool quotient_overflows(T a, T b) {
  return b == T(-1) && a == std::numeric_limits<T>::min();
}

/// What is left after truncated division; sign of a. Integers: b is not 0.
template <typename T>
T fmod(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return quotient_overflows(a, b) ? T(0) : static_cast<T>(a % b);
  } else {
    return std::fmod(a, b);
  }
}

/// What is left after floored division; sign of b.
template <typename T>
T remainder(T a, T b) {
  const T rest = scalar::fmod(a, b);
  return rest != T(0) && (b < T(0)) != (rest < T(0)) ? static_cast<T>(rest + b) : rest;
}

/// Largest integer not above a / b; floats from the exact remainder, so that 1.0 // 0.1 is 9.
template <typename T>
T floor_divide(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    if (quotient_overflows(a, b)) return a;
    const T quotient = static_cast<T>(a / b);
    return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
  } else {
    if (b == T(0)) return a / b;
    const T rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != T(0) && (b < T(0)) != (rest < T(0))) quotient -= T(1);
    if (quotient == T(0)) return std::copysign(T(0), a / b);
    const T whole = std::floor(quotient);
    return quotient - whole > T(0.5) ? whole + T(1) : whole;
  }
}

/// Integers by squaring, with wrap-around; a negative exponent gives the truncated quotient.
template <typename T>
T power(T base, T exponent) {
  if constexpr (std::is_integral_v<T>) {
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
  } else {
    return std::pow(base, exponent);
  }
}

/// NaN wins; equal ones give a.
template <typename T>
T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return a < b ? b : a;
}
template <typename T>
T smaller(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
  }
  return b < a ? b : a;
}

}  // namespace downhaul::kernels::scalar

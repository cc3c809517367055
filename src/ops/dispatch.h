#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "ir/graph.h"

/// Choosing the C++ type of a reference kernel: bool, int64_t, float or double. Narrower types are
/// computed in the wide one: f16 and bf16 in f32, integers in i64; results are rounded, or wrapped,
/// once at the end.
namespace downhaul {

/// A call with every operand and result of one dtype converted to another. Owns the copies.
class WideCall {
 public:
  WideCall(RefCall& call, DType from, DType to);
  WideCall(const WideCall&) = delete;
  WideCall& operator=(const WideCall&) = delete;

  RefCall& call() { return wide_; }
  /// Hands the results back to the original call, converted to its dtypes.
  void finish();

 private:
  RefCall& original_;
  std::vector<Tensor> copies_;
  RefCall wide_;
};

/// Calls kernel.template operator()<T>(call) with T = float or double by `dtype`, which is
/// floating.
template <typename Kernel>
Status for_float(RefCall& call, DType dtype, Kernel kernel) {
  if (dtype == DType::kF64) return kernel.template operator()<double>(call);
  if (dtype == DType::kF32) return kernel.template operator()<float>(call);
  WideCall wide(call, dtype, DType::kF32);
  DH_TRY(kernel.template operator()<float>(wide.call()));
  wide.finish();
  return {};
}

/// The same with T = int64_t for integers, bool for bool.
template <typename Kernel>
Status for_integer_or_bool(RefCall& call, DType dtype, Kernel kernel) {
  if (dtype == DType::kBool) return kernel.template operator()<bool>(call);
  if (dtype == DType::kI64) return kernel.template operator()<int64_t>(call);
  WideCall wide(call, dtype, DType::kI64);
  DH_TRY(kernel.template operator()<int64_t>(wide.call()));
  wide.finish();
  return {};
}

/// The same for integers and floats.
template <typename Kernel>
Status for_number(RefCall& call, DType dtype, Kernel kernel) {
  if (is_float(dtype)) return for_float(call, dtype, kernel);
  if (dtype == DType::kI64) return kernel.template operator()<int64_t>(call);
  WideCall wide(call, dtype, DType::kI64);
  DH_TRY(kernel.template operator()<int64_t>(wide.call()));
  wide.finish();
  return {};
}

/// The same for every dtype.
template <typename Kernel>
Status for_any(RefCall& call, DType dtype, Kernel kernel) {
  if (is_float(dtype)) return for_float(call, dtype, kernel);
  return for_integer_or_bool(call, dtype, kernel);
}

/// For kernels that only move elements: T is an unsigned integer as wide as `dtype`.
template <typename Kernel>
Status for_item_size(RefCall& call, DType dtype, Kernel kernel) {
  switch (item_size(dtype)) {
    case 1:
      return kernel.template operator()<uint8_t>(call);
    case 2:
      return kernel.template operator()<uint16_t>(call);
    case 4:
      return kernel.template operator()<uint32_t>(call);
    default:
      return kernel.template operator()<uint64_t>(call);
  }
}

/// Integer arithmetic as hardware does it, without undefined overflow; plain for floats and bool.
template <typename T, typename F>
T wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  } else {
    return static_cast<T>(f(a, b));
  }
}

/// The type that sums of T are kept in: double for floats, so that the order hardly matters.
template <typename T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

}  // namespace downhaul

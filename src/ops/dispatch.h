#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "ir/graph.h"

/// Choosing the C++ type of a reference kernel. f16 and bf16 are computed in f32: operands are
/// widened, the kernel runs, its results are rounded once at the end.
namespace downhaul {

constexpr bool is_half(DType d) { return d == DType::kF16 || d == DType::kBF16; }

/// A call with every f16 and bf16 operand and result as f32. Owns the copies.
class WideCall {
 public:
  explicit WideCall(RefCall& call);
  WideCall(const WideCall&) = delete;
  WideCall& operator=(const WideCall&) = delete;

  RefCall& call() { return wide_; }
  /// Hands the results back to the original call, rounded to its dtypes.
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
  if (is_half(dtype)) {
    WideCall wide(call);
    DH_TRY(kernel.template operator()<float>(wide.call()));
    wide.finish();
    return {};
  }
  if (dtype == DType::kF64) return kernel.template operator()<double>(call);
  DH_CHECK(dtype == DType::kF32);
  return kernel.template operator()<float>(call);
}

/// The same for integers and floats.
template <typename Kernel>
Status for_number(RefCall& call, DType dtype, Kernel kernel) {
  switch (dtype) {
    case DType::kU8:
      return kernel.template operator()<uint8_t>(call);
    case DType::kI8:
      return kernel.template operator()<int8_t>(call);
    case DType::kI16:
      return kernel.template operator()<int16_t>(call);
    case DType::kI32:
      return kernel.template operator()<int32_t>(call);
    case DType::kI64:
      return kernel.template operator()<int64_t>(call);
    default:
      return for_float(call, dtype, kernel);
  }
}

/// The same for every dtype.
template <typename Kernel>
Status for_any(RefCall& call, DType dtype, Kernel kernel) {
  if (dtype == DType::kBool) return kernel.template operator()<bool>(call);
  return for_number(call, dtype, kernel);
}

/// The same for integers and bool.
template <typename Kernel>
Status for_integer_or_bool(RefCall& call, DType dtype, Kernel kernel) {
  switch (dtype) {
    case DType::kBool:
      return kernel.template operator()<bool>(call);
    case DType::kU8:
      return kernel.template operator()<uint8_t>(call);
    case DType::kI8:
      return kernel.template operator()<int8_t>(call);
    case DType::kI16:
      return kernel.template operator()<int16_t>(call);
    case DType::kI32:
      return kernel.template operator()<int32_t>(call);
    default:
      DH_CHECK(dtype == DType::kI64);
      return kernel.template operator()<int64_t>(call);
  }
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

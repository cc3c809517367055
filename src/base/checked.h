#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

/// Arithmetic on numbers that came out of a file: no wrap-around goes unnoticed.
namespace downhaul {

template <std::integral T>
std::optional<T> checked_add(T a, T b) {
  T r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

template <std::integral T>
std::optional<T> checked_mul(T a, T b) {
  T r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

/// True when [offset, offset + size) lies inside [0, limit), without wrapping.
inline bool in_range(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace downhaul

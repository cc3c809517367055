#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/loops.h"

/// Loading elements of any type as int64_t, float or double, and storing those, a block at a time:
/// functions need to know the wide types only.
namespace downhaul::kernels {

/// Bits of f16 and bf16.
struct HalfBits {
  uint16_t bits;
};
struct BFloat16Bits {
  uint16_t bits;
};

inline float to_float(HalfBits h) {
  const uint32_t sign = (uint32_t{h.bits} & 0x8000u) << 16;
  const uint32_t exponent = (uint32_t{h.bits} >> 10) & 0x1Fu;
  const uint32_t mantissa = h.bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // denormal, exact in f32
  return sign != 0 ? -magnitude : magnitude;
}
inline float to_float(BFloat16Bits b) { return std::bit_cast<float>(uint32_t{b.bits} << 16); }

/// Rounds to nearest even.
inline HalfBits to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t half = 0;
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u;
  } else if (magnitude >= 0x477FF000u) {  // 65520 and more round to infinity
    half = 0x7C00u;
  } else if (magnitude < 0x38800000u) {
    // Denormal, in units of 2^-24: adding 1/2 lets the adder round.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  } else {
    half = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  }
  return {static_cast<uint16_t>(sign | half)};
}
inline BFloat16Bits to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  const uint32_t rounded =
      nan ? (bits >> 16) | 0x40u : (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<uint16_t>(rounded)};
}

/// Truncated; out of range the nearest bound, NaN 0.
inline int64_t to_integer(double v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (v < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(v);
}

/// One element of type T from one of type From; small integers wrap.
template <typename T, typename From>
T convert(From v) {
  if constexpr (std::is_same_v<T, From>) {
    return v;
  } else if constexpr (std::is_same_v<From, HalfBits> || std::is_same_v<From, BFloat16Bits>) {
    return convert<T>(to_float(v));
  } else if constexpr (std::is_same_v<T, HalfBits>) {
    return to_half(static_cast<float>(static_cast<double>(v)));
  } else if constexpr (std::is_same_v<T, BFloat16Bits>) {
    return to_bfloat16(static_cast<float>(static_cast<double>(v)));
  } else if constexpr (std::is_same_v<T, bool>) {
    return v != From(0);
  } else if constexpr (std::is_same_v<T, float>) {
    // By way of f64, as the reference does: i64 is rounded twice.
    return static_cast<float>(static_cast<double>(v));
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>) {
    return static_cast<T>(to_integer(static_cast<double>(v)));
  } else {
    return static_cast<T>(v);
  }
}

/// Calls f.template operator()<T>() with the C++ type of the elements.
template <typename F>
void with_type(Element element, F f) {
  switch (element) {
    case Element::kBool:
      return f.template operator()<bool>();
    case Element::kU8:
      return f.template operator()<uint8_t>();
    case Element::kI8:
      return f.template operator()<int8_t>();
    case Element::kI16:
      return f.template operator()<int16_t>();
    case Element::kI32:
      return f.template operator()<int32_t>();
    case Element::kI64:
      return f.template operator()<int64_t>();
    case Element::kF16:
      return f.template operator()<HalfBits>();
    case Element::kBF16:
      return f.template operator()<BFloat16Bits>();
    case Element::kF32:
      return f.template operator()<float>();
    case Element::kF64:
      return f.template operator()<double>();
  }
}

constexpr bool is_float(Element e) { return e >= Element::kF16; }

/// Loads n elements, `stride` apart, as W.
template <typename W>
using LoadBlock = void (*)(const void* from, int64_t offset, int64_t stride, int64_t n, W* to);
template <typename W>
LoadBlock<W> load_block(Element element) {
  LoadBlock<W> load = nullptr;
  with_type(element, [&]<typename T>() {
    load = [](const void* from, int64_t offset, int64_t stride, int64_t n, W* to) {
      const T* p = static_cast<const T*>(from) + offset;
      if (stride == 1) {
        for (int64_t i = 0; i < n; ++i) to[i] = convert<W>(p[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) to[i] = convert<W>(p[i * stride]);
      }
    };
  });
  return load;
}

template <typename W>
using StoreBlock = void (*)(const W* from, int64_t n, void* to, int64_t offset, int64_t stride);
template <typename W>
StoreBlock<W> store_block(Element element) {
  StoreBlock<W> store = nullptr;
  with_type(element, [&]<typename T>() {
    store = [](const W* from, int64_t n, void* to, int64_t offset, int64_t stride) {
      T* p = static_cast<T*>(to) + offset;
      if (stride == 1) {
        for (int64_t i = 0; i < n; ++i) p[i] = convert<T>(from[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) p[i * stride] = convert<T>(from[i]);
      }
    };
  });
  return store;
}

}  // namespace downhaul::kernels

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace downhaul {

/// Element types that the models use. Little-endian in memory, bool is one byte of 0 or 1.
enum class DType : uint8_t { kBool, kU8, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64 };

constexpr size_t kNumDTypes = 10;

/// Bytes of one element.
size_t item_size(DType dtype);
/// "bool u8 i8 i16 i32 i64 f16 bf16 f32 f64"; the inverse is parse_dtype.
std::string_view name(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

constexpr bool is_float(DType d) { return d >= DType::kF16; }
constexpr bool is_integer(DType d) { return d >= DType::kU8 && d <= DType::kI64; }

/// The type of a result computed from operands of types a and b, both of the same rank class
/// (torch's promotion table): bool < integers < floats; u8 with a signed type gives the next wider
/// signed type; f16 with bf16 gives f32.
DType promote(DType a, DType b);

/// IEEE half and bfloat16, by bit pattern. To half/bf16: round to nearest even.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);

}  // namespace downhaul

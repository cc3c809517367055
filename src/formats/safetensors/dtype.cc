#include <iterator>

#include "formats/safetensors/safetensors.h"

namespace downhaul::safetensors {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  uint32_t bits;
};
constexpr Row kRows[] = {
    {DType::kBool, "BOOL", 8},
    {DType::kU8, "U8", 8},
    {DType::kI8, "I8", 8},
    {DType::kU16, "U16", 16},
    {DType::kI16, "I16", 16},
    {DType::kU32, "U32", 32},
    {DType::kI32, "I32", 32},
    {DType::kU64, "U64", 64},
    {DType::kI64, "I64", 64},
    {DType::kF16, "F16", 16},
    {DType::kBF16, "BF16", 16},
    {DType::kF32, "F32", 32},
    {DType::kF64, "F64", 64},
    {DType::kC64, "C64", 64},
    {DType::kF8E4M3, "F8_E4M3", 8},
    {DType::kF8E5M2, "F8_E5M2", 8},
    {DType::kF8E8M0, "F8_E8M0", 8},
    {DType::kF8E4M3FNUZ, "F8_E4M3FNUZ", 8},
    {DType::kF8E5M2FNUZ, "F8_E5M2FNUZ", 8},
    {DType::kF6E2M3, "F6_E2M3", 6},
    {DType::kF6E3M2, "F6_E3M2", 6},
    {DType::kF4, "F4", 4},
};

const Row& row(DType dtype) {
  for (const Row& candidate : kRows) {
    if (candidate.dtype == dtype) return candidate;
  }
  return kRows[0];
}

}  // namespace

std::string_view name(DType dtype) { return row(dtype).name; }

uint32_t item_bits(DType dtype) { return row(dtype).bits; }

std::optional<DType> dtype_from_name(std::string_view wanted) {
  for (const Row& candidate : kRows) {
    if (candidate.name == wanted) return candidate.dtype;
  }
  return std::nullopt;
}

}  // namespace downhaul::safetensors

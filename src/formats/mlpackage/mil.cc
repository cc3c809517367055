#include "formats/mlpackage/mil.h"

#include <algorithm>

namespace downhaul::mil {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int bits;
};
constexpr Row kRows[] = {
    {DType::kBool, "bool", 8},   {DType::kString, "string", 0}, {DType::kF16, "fp16", 16},
    {DType::kF32, "fp32", 32},   {DType::kF64, "fp64", 64},     {DType::kBF16, "bf16", 16},
    {DType::kI8, "int8", 8},     {DType::kI16, "int16", 16},    {DType::kI32, "int32", 32},
    {DType::kI64, "int64", 64},  {DType::kI4, "int4", 4},       {DType::kU8, "uint8", 8},
    {DType::kU16, "uint16", 16}, {DType::kU32, "uint32", 32},   {DType::kU64, "uint64", 64},
    {DType::kU4, "uint4", 4},    {DType::kU2, "uint2", 2},      {DType::kU1, "uint1", 1},
    {DType::kU6, "uint6", 6},    {DType::kU3, "uint3", 3},
};

const Row* row_of(DType dtype) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const Row& r) { return r.dtype == dtype; });
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

std::string_view dtype_name(DType dtype) {
  const Row* row = row_of(dtype);
  return row != nullptr ? row->name : "?";
}

int bits_of(DType dtype) {
  const Row* row = row_of(dtype);
  return row != nullptr ? row->bits : 0;
}

const Argument* Operation::input(std::string_view wanted) const {
  const auto found = std::find_if(inputs.begin(), inputs.end(),
                                  [&](const Argument& a) { return a.name == wanted; });
  return found != inputs.end() ? &*found : nullptr;
}

const Value* Operation::attribute(std::string_view wanted) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& a) { return a.first == wanted; });
  return found != attributes.end() ? &found->second : nullptr;
}

}  // namespace downhaul::mil

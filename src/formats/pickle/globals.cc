#include "formats/pickle/globals.h"

#include <iterator>

namespace downhaul::torch_save {
namespace {

using M = Global::Meaning;

constexpr Global kGlobals[] = {
    {"collections", "OrderedDict", M::kOrderedDict},
    {"torch", "Size", M::kTuple},
    {"torch._utils", "_rebuild_tensor_v2", M::kRebuildTensor},
    {"torch._utils", "_rebuild_tensor_v3", M::kRebuildTypedTensor},
    {"torch._utils", "_rebuild_parameter", M::kRebuildParameter},
    {"torch.storage", "UntypedStorage", M::kUntypedStorage},
    {"torch", "UntypedStorage", M::kUntypedStorage},
    {"torch", "BoolStorage", M::kStorage, DType::kBool},
    {"torch", "ByteStorage", M::kStorage, DType::kUint8},
    {"torch", "CharStorage", M::kStorage, DType::kInt8},
    {"torch", "ShortStorage", M::kStorage, DType::kInt16},
    {"torch", "IntStorage", M::kStorage, DType::kInt32},
    {"torch", "LongStorage", M::kStorage, DType::kInt64},
    {"torch", "HalfStorage", M::kStorage, DType::kFloat16},
    {"torch", "BFloat16Storage", M::kStorage, DType::kBfloat16},
    {"torch", "FloatStorage", M::kStorage, DType::kFloat32},
    {"torch", "DoubleStorage", M::kStorage, DType::kFloat64},
    {"torch", "ComplexFloatStorage", M::kStorage, DType::kComplex64},
    {"torch", "ComplexDoubleStorage", M::kStorage, DType::kComplex128},
    {"torch", "bool", M::kDType, DType::kBool},
    {"torch", "uint8", M::kDType, DType::kUint8},
    {"torch", "int8", M::kDType, DType::kInt8},
    {"torch", "uint16", M::kDType, DType::kUint16},
    {"torch", "int16", M::kDType, DType::kInt16},
    {"torch", "uint32", M::kDType, DType::kUint32},
    {"torch", "int32", M::kDType, DType::kInt32},
    {"torch", "uint64", M::kDType, DType::kUint64},
    {"torch", "int64", M::kDType, DType::kInt64},
    {"torch", "float16", M::kDType, DType::kFloat16},
    {"torch", "bfloat16", M::kDType, DType::kBfloat16},
    {"torch", "float32", M::kDType, DType::kFloat32},
    {"torch", "float64", M::kDType, DType::kFloat64},
    {"torch", "complex32", M::kDType, DType::kComplex32},
    {"torch", "complex64", M::kDType, DType::kComplex64},
    {"torch", "complex128", M::kDType, DType::kComplex128},
    {"torch", "float8_e4m3fn", M::kDType, DType::kFloat8E4m3fn},
    {"torch", "float8_e5m2", M::kDType, DType::kFloat8E5m2},
    {"torch", "float8_e4m3fnuz", M::kDType, DType::kFloat8E4m3fnuz},
    {"torch", "float8_e5m2fnuz", M::kDType, DType::kFloat8E5m2fnuz},
    {"torch", "float8_e8m0fnu", M::kDType, DType::kFloat8E8m0fnu},
};

}  // namespace

std::optional<uint32_t> find_global(std::string_view module, std::string_view name) {
  for (uint32_t row = 0; row < std::size(kGlobals); ++row) {
    if (kGlobals[row].name == name && kGlobals[row].module == module) return row;
  }
  return std::nullopt;
}

const Global& global(uint32_t row) { return kGlobals[row]; }

std::string_view name(DType dtype) {
  for (const Global& row : kGlobals) {
    if (row.meaning == M::kDType && row.dtype == dtype) return row.name;
  }
  return {};
}

uint32_t item_size(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
    case DType::kInt8:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E5m2:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E5m2fnuz:
    case DType::kFloat8E8m0fnu:
      return 1;
    case DType::kUint16:
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBfloat16:
      return 2;
    case DType::kUint32:
    case DType::kInt32:
    case DType::kFloat32:
    case DType::kComplex32:
      return 4;
    case DType::kUint64:
    case DType::kInt64:
    case DType::kFloat64:
    case DType::kComplex64:
      return 8;
    case DType::kComplex128:
      return 16;
  }
  return 0;
}

}  // namespace downhaul::torch_save

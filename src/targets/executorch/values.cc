#include "targets/executorch/values.h"

#include "base/status.h"

namespace downhaul {

pte::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return pte::ScalarType::kBool;
    case DType::kU8:
      return pte::ScalarType::kByte;
    case DType::kI8:
      return pte::ScalarType::kChar;
    case DType::kI16:
      return pte::ScalarType::kShort;
    case DType::kI32:
      return pte::ScalarType::kInt;
    case DType::kI64:
      return pte::ScalarType::kLong;
    case DType::kF16:
      return pte::ScalarType::kHalf;
    case DType::kBF16:
      return pte::ScalarType::kBFloat16;
    case DType::kF32:
      return pte::ScalarType::kFloat;
    case DType::kF64:
      return pte::ScalarType::kDouble;
  }
  DH_CHECK(false);
  return pte::ScalarType::kFloat;
}

int32_t ValueTable::operator_index(std::string_view full_name) {
  if (const auto found = operators_.find(full_name); found != operators_.end())
    return found->second;
  const size_t dot = full_name.rfind('.');
  pte::Operator op;
  op.name = full_name.substr(0, dot);
  if (dot != std::string_view::npos) op.overload = full_name.substr(dot + 1);
  plan_.operators.push_back(std::move(op));
  const auto index = static_cast<int32_t>(plan_.operators.size() - 1);
  operators_.emplace(full_name, index);
  return index;
}

}  // namespace downhaul

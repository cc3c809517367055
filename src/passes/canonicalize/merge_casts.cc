// cast(cast(x, A), B) → cast(x, B) when A holds every value of x.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

/// Bits of integers (without sign) or of the significand that a dtype holds exactly.
int exact_bits(DType d) {
  switch (d) {
    case DType::kBool:
      return 1;
    case DType::kU8:
    case DType::kBF16:
      return 8;
    case DType::kI8:
      return 7;
    case DType::kF16:
      return 11;
    case DType::kI16:
      return 15;
    case DType::kF32:
      return 24;
    case DType::kI32:
      return 31;
    case DType::kF64:
      return 53;
    case DType::kI64:
      return 63;
  }
  return 0;
}

bool holds(DType wide, DType narrow) {
  if (wide == narrow || narrow == DType::kBool) return true;
  if (wide == DType::kBool) return false;
  if (is_float(narrow)) {
    return is_float(wide) && (wide == DType::kF64 || (wide == DType::kF32 && narrow < DType::kF32));
  }
  if (is_float(wide)) return exact_bits(wide) >= exact_bits(narrow);
  const bool is_signed = narrow != DType::kU8;
  return exact_bits(wide) >= exact_bits(narrow) && (!is_signed || wide != DType::kU8);
}

std::vector<Value*> apply(Node& node, Builder& b) {
  if (!is_op(node.operand(0), ops::kCast)) return {};
  Value* source = node.operand(0)->producer()->operand(0);
  if (!holds(node.operand(0)->dtype(), source->dtype())) return {};
  return {b.like(node, {source})};
}

}  // namespace

const Rewrite kMergeCasts = {
    .name = "merge_casts",
    .root = &ops::kCast,
    .apply = apply,
};

}  // namespace downhaul::rewrites

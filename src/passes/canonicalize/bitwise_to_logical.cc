// On bool, bitwise and, or, xor and not are the logical operators.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

std::vector<Value*> apply(Node& node, Builder& b) {
  if (node.result()->dtype() != DType::kBool) return {};
  const OpDef* to = node.is(ops::kBitwiseAnd)   ? &ops::kLogicalAnd
                    : node.is(ops::kBitwiseOr)  ? &ops::kLogicalOr
                    : node.is(ops::kBitwiseXor) ? &ops::kLogicalXor
                    : node.is(ops::kBitwiseNot) ? &ops::kLogicalNot
                                                : nullptr;
  if (to == nullptr) return {};
  return {b.op(*to, node.operands())};
}

}  // namespace

const Rewrite kBitwiseToLogical = {
    .name = "bitwise_to_logical",
    .apply = apply,
};

}  // namespace downhaul::rewrites

// matmul of a permute that swaps the last two dimensions → matmul with a transpose flag.
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

bool swaps_last_two(const Ints& dims) {
  const auto rank = static_cast<int64_t>(dims.size());
  for (int64_t d = 0; d < rank - 2; ++d) {
    if (dims[static_cast<size_t>(d)] != d) return false;
  }
  return rank >= 2 && dims[static_cast<size_t>(rank - 2)] == rank - 1;
}

std::vector<Value*> apply(Node& node, Builder& b) {
  for (const int i : {0, 1}) {
    Value* operand = node.operand(i);
    if (!is_op(operand, ops::kPermute) || !swaps_last_two(operand->producer()->ints("dims"))) {
      continue;
    }
    std::vector<Value*> operands = node.operands();
    operands[static_cast<size_t>(i)] = operand->producer()->operand(0);
    const char* flag = i == 0 ? "transpose_self" : "transpose_other";
    return {b.like(node, operands, {{flag, !node.b(flag)}})};
  }
  return {};
}

}  // namespace

const Rewrite kMergePermuteIntoMatmul = {
    .name = "merge_permute_into_matmul",
    .root = &ops::kMatmul,
    .apply = apply,
};

}  // namespace downhaul::rewrites

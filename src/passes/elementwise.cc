#include "passes/elementwise.h"

#include <algorithm>

#include "ops/axes.h"

namespace downhaul {

bool is_elementwise(const Node& node) {
  if (node.op().axes != elementwise_axes || node.num_results() != 1) return false;
  const std::vector<SchemaArg>& args = node.schema().args;
  return std::none_of(args.begin(), args.end(), [](const SchemaArg& arg) {
    return arg.kind == ArgKind::kDim || arg.kind == ArgKind::kDims;
  });
}

}  // namespace downhaul

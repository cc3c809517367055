#pragma once

#include <unordered_set>
#include <vector>

#include "engine/plan.h"
#include "kernels/epilogue.h"

namespace downhaul::engine {

/// What the kernel of a matrix product or a convolution does to its sums before it stores them, and
/// the nodes that are thereby done.
struct Fusion {
  std::vector<const Node*> nodes;  ///< the product first; the result is that of the last
  kernels::Epilogue epilogue;      ///< without its operand's address
  const Value* operand = nullptr;  ///< of the combination; has as many elements as the result
  std::string kernel;              ///< " + gelu + add", for profiles

  const Node& root() const { return *nodes.front(); }
  const Value* result() const { return nodes.back()->result(); }
};

/// The activation, and the addition or product with a second tensor of the same sizes, that follow
/// `root` and are all that reads it. Reshapes between them are passed when `through_reshapes`: then
/// the result must be row-major in memory. Nodes in `taken` belong to another product: an addition
/// of two products goes with the first.
Fusion fuse_epilogue(PlanBuilder& plan, const Node& root, bool through_reshapes,
                     const std::unordered_set<const Node*>& taken);

}  // namespace downhaul::engine

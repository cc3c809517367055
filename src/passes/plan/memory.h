#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

/// Activation memory: where each value lies in the arena, so that no two values that are alive at
/// the same time share bytes.
namespace downhaul {

/// A block of memory and the instructions between which it holds something. Values that are views
/// of one another share one block.
struct PlanBlock {
  uint64_t bytes = 0;
  int first = 0;  ///< instruction that writes it; -1: before the first (an input)
  int last = 0;   ///< last instruction that reads it; the number of instructions: an output
};

struct MemoryPlan {
  std::vector<uint64_t> offsets;  ///< of each block, multiples of kPlanAlignment
  uint64_t arena_bytes = 0;
};

constexpr uint64_t kPlanAlignment = 16;

/// Places all blocks. Several greedy orders are tried and the smallest arena kept; deterministic.
/// Never below `live_bytes`.
MemoryPlan plan_memory(const std::vector<PlanBlock>& blocks);

/// Proves that a plan is right, independently of how it was made. Errors: kInvalidGraph naming two
/// blocks that are alive together and share bytes, or one that is misaligned or outside the arena.
Status check_plan(const std::vector<PlanBlock>& blocks, const MemoryPlan& plan);

/// The most bytes alive at one instruction: a lower bound of any arena.
uint64_t live_bytes(const std::vector<PlanBlock>& blocks);

}  // namespace downhaul

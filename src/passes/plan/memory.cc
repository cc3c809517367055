#include "passes/plan/memory.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "base/checked.h"
#include "base/strings.h"

namespace downhaul {
namespace {

// Above this many blocks only the linear sweep is used: the greedy orders compare every pair.
constexpr size_t kMaxGreedyBlocks = 6000;

uint64_t padded(const PlanBlock& b) { return align_up(b.bytes, kPlanAlignment); }

bool alive_together(const PlanBlock& a, const PlanBlock& b) {
  return a.first <= b.last && b.first <= a.last;
}

enum class Gap { kLowest, kTightest };

/// Places the blocks one by one in `order`, each into a gap between those that are already placed
/// and alive at the same time.
MemoryPlan place_in_order(const std::vector<PlanBlock>& blocks, const std::vector<int>& order,
                          Gap gap) {
  MemoryPlan plan;
  plan.offsets.assign(blocks.size(), 0);
  std::vector<int> placed;  // by offset
  for (const int index : order) {
    const PlanBlock& block = blocks[static_cast<size_t>(index)];
    const uint64_t size = padded(block);
    uint64_t best = 0;
    uint64_t best_slack = std::numeric_limits<uint64_t>::max();
    uint64_t end = 0;  // of the placed blocks passed so far
    bool found = false;
    for (const int other : placed) {
      const PlanBlock& o = blocks[static_cast<size_t>(other)];
      if (!alive_together(block, o)) continue;
      const uint64_t at = plan.offsets[static_cast<size_t>(other)];
      if (at > end && at - end >= size && at - end - size < best_slack) {
        best = end;
        best_slack = at - end - size;
        found = true;
        if (gap == Gap::kLowest) break;
      }
      end = std::max(end, at + padded(o));
    }
    if (!found) best = end;
    plan.offsets[static_cast<size_t>(index)] = best;
    plan.arena_bytes = std::max(plan.arena_bytes, best + size);
    if (size == 0) continue;
    const auto where = std::upper_bound(
        placed.begin(), placed.end(), best,
        [&](uint64_t offset, int p) { return offset < plan.offsets[static_cast<size_t>(p)]; });
    placed.insert(where, index);
  }
  return plan;
}

/// Follows the instructions and keeps a list of free stretches; each block takes the tightest.
MemoryPlan place_by_sweep(const std::vector<PlanBlock>& blocks) {
  MemoryPlan plan;
  plan.offsets.assign(blocks.size(), 0);
  std::vector<int> by_first(blocks.size());
  std::iota(by_first.begin(), by_first.end(), 0);
  std::stable_sort(by_first.begin(), by_first.end(), [&](int a, int b) {
    return blocks[static_cast<size_t>(a)].first < blocks[static_cast<size_t>(b)].first;
  });
  std::map<uint64_t, uint64_t> free;  // offset → size
  std::multimap<int, int> active;     // last → block
  uint64_t top = 0;
  const auto release = [&](uint64_t offset, uint64_t size) {
    auto next = free.lower_bound(offset);
    if (next != free.end() && offset + size == next->first) {
      size += next->second;
      next = free.erase(next);
    }
    if (next != free.begin()) {
      const auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        previous->second += size;
        return;
      }
    }
    free.emplace(offset, size);
  };
  for (const int index : by_first) {
    const PlanBlock& block = blocks[static_cast<size_t>(index)];
    const uint64_t size = padded(block);
    while (!active.empty() && active.begin()->first < block.first) {
      const auto gone = static_cast<size_t>(active.begin()->second);
      release(plan.offsets[gone], padded(blocks[gone]));
      active.erase(active.begin());
    }
    if (size == 0) continue;
    auto best = free.end();
    for (auto it = free.begin(); it != free.end(); ++it)
      if (it->second >= size && (best == free.end() || it->second < best->second)) best = it;
    uint64_t offset = top;
    if (best != free.end()) {
      offset = best->first;
      const uint64_t rest = best->second - size;
      free.erase(best);
      if (rest > 0) free.emplace(offset + size, rest);
    } else if (!free.empty() &&
               std::prev(free.end())->first + std::prev(free.end())->second == top) {
      offset = std::prev(free.end())->first;
      free.erase(std::prev(free.end()));
      top = offset + size;
    } else {
      top += size;
    }
    plan.offsets[static_cast<size_t>(index)] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + size);
    active.emplace(block.last, index);
  }
  return plan;
}

}  // namespace

uint64_t live_bytes(const std::vector<PlanBlock>& blocks) {
  std::map<int, int64_t> change;
  for (const PlanBlock& b : blocks) {
    change[b.first] += static_cast<int64_t>(padded(b));
    change[b.last + 1] -= static_cast<int64_t>(padded(b));
  }
  int64_t live = 0, most = 0;
  for (const auto& [at, delta] : change) {
    live += delta;
    most = std::max(most, live);
  }
  return static_cast<uint64_t>(most);
}

MemoryPlan plan_memory(const std::vector<PlanBlock>& blocks) {
  MemoryPlan best = place_by_sweep(blocks);
  const uint64_t bound = live_bytes(blocks);
  if (blocks.size() > kMaxGreedyBlocks) return best;

  std::vector<int> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](int i) {
    const PlanBlock& b = blocks[static_cast<size_t>(i)];
    return static_cast<uint64_t>(b.last - b.first + 1);
  };
  const auto size = [&](int i) { return padded(blocks[static_cast<size_t>(i)]); };
  const auto first = [&](int i) { return blocks[static_cast<size_t>(i)].first; };
  const auto try_order = [&](auto less) {
    if (best.arena_bytes <= bound) return;
    std::stable_sort(order.begin(), order.end(), less);
    for (const Gap gap : {Gap::kTightest, Gap::kLowest}) {
      MemoryPlan plan = place_in_order(blocks, order, gap);
      if (plan.arena_bytes < best.arena_bytes) best = std::move(plan);
    }
  };
  try_order([&](int a, int b) { return size(a) > size(b); });
  try_order(
      [&](int a, int b) { return size(a) != size(b) ? size(a) > size(b) : length(a) > length(b); });
  try_order([&](int a, int b) { return size(a) * length(a) > size(b) * length(b); });
  try_order([&](int a, int b) { return first(a) < first(b); });
  return best;
}

Status check_plan(const std::vector<PlanBlock>& blocks, const MemoryPlan& plan) {
  if (plan.offsets.size() != blocks.size())
    return invalid_graph(cat("plan of ", plan.offsets.size(), " blocks, expected ", blocks.size()));
  std::vector<size_t> by_first;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const uint64_t offset = plan.offsets[i];
    if (offset % kPlanAlignment != 0)
      return invalid_graph(
          cat("block ", i, " lies at ", offset, ", no multiple of ", kPlanAlignment));
    if (!in_range(offset, blocks[i].bytes, plan.arena_bytes))
      return invalid_graph(cat("block ", i, " ends at ", offset + blocks[i].bytes,
                               ", outside the arena of ", plan.arena_bytes, " bytes"));
    if (blocks[i].bytes > 0) by_first.push_back(i);
  }
  std::stable_sort(by_first.begin(), by_first.end(),
                   [&](size_t a, size_t b) { return blocks[a].first < blocks[b].first; });
  std::map<uint64_t, size_t> alive;  // offset → block; no two overlap, by induction
  std::multimap<int, size_t> by_last;
  for (const size_t i : by_first) {
    while (!by_last.empty() && by_last.begin()->first < blocks[i].first) {
      alive.erase(plan.offsets[by_last.begin()->second]);
      by_last.erase(by_last.begin());
    }
    const uint64_t begin = plan.offsets[i], end = begin + blocks[i].bytes;
    const auto next = alive.lower_bound(begin);
    std::optional<size_t> clash;
    if (next != alive.end() && next->first < end) clash = next->second;
    if (next != alive.begin()) {
      const size_t before = std::prev(next)->second;
      if (plan.offsets[before] + blocks[before].bytes > begin) clash = before;
    }
    if (clash.has_value())
      return invalid_graph(cat("blocks ", *clash, " (instructions ", blocks[*clash].first, " to ",
                               blocks[*clash].last, ", bytes ", plan.offsets[*clash], " to ",
                               plan.offsets[*clash] + blocks[*clash].bytes, ") and ", i,
                               " (instructions ", blocks[i].first, " to ", blocks[i].last,
                               ", bytes ", begin, " to ", end, ") are alive together and overlap"));
    alive.emplace(begin, i);
    by_last.emplace(blocks[i].last, i);
  }
  return {};
}

}  // namespace downhaul

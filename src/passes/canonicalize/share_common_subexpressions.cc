// Equal operators on equal operands become one. Constants are equal when they are the same view of
// the same storage, or of equal bytes, which is looked at only for small ones and for those on the
// heap (made here, in memory anyway); weights in a file are not read.
#include <functional>
#include <unordered_map>

#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul {

namespace {

constexpr uint64_t kMaxComparedBytes = 1 << 14;
constexpr uint64_t kMaxComparedHeapBytes = 1 << 20;

bool is_compared(const Tensor& t) {
  const bool heap = t.storage()->file() == nullptr;
  return t.num_bytes() <= (heap ? kMaxComparedHeapBytes : kMaxComparedBytes);
}

uint64_t mix(uint64_t hash, uint64_t value) {
  return (hash ^ value) * 0x9E3779B97F4A7C15u + (hash >> 29);
}

uint64_t hash_constant(const Tensor& t) {
  uint64_t hash = mix(0, static_cast<uint64_t>(t.dtype()));
  for (const int64_t size : t.sizes()) hash = mix(hash, static_cast<uint64_t>(size));
  if (!is_compared(t)) {
    hash = mix(hash, reinterpret_cast<uintptr_t>(t.storage().get()));
    return mix(hash, t.byte_offset());
  }
  const Bytes bytes = t.bytes();
  return mix(hash, std::hash<std::string_view>()(std::string_view(
                       reinterpret_cast<const char*>(bytes.data()), bytes.size())));
}

bool same_constant(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.sizes() != b.sizes()) return false;
  if (a.storage() == b.storage() && a.byte_offset() == b.byte_offset()) return true;
  return is_compared(a) && is_compared(b) && same_bytes(a, b);
}

int share_constants(Graph& graph) {
  int count = 0;
  std::unordered_multimap<uint64_t, Value*> seen;
  for (Value* constant : graph.constants()) {
    if (constant->num_uses() == 0) continue;
    const uint64_t hash = hash_constant(constant->constant());
    const auto [begin, end] = seen.equal_range(hash);
    Value* same = nullptr;
    for (auto it = begin; it != end && same == nullptr; ++it) {
      if (same_constant(it->second->constant(), constant->constant())) same = it->second;
    }
    if (same == nullptr) {
      seen.emplace(hash, constant);
    } else {
      graph.replace_all_uses(constant, same);
      ++count;
    }
  }
  return count;
}

uint64_t hash_node(const Node& node) {
  uint64_t hash = reinterpret_cast<uintptr_t>(&node.op());
  for (const Value* operand : node.operands()) {
    hash = mix(hash, reinterpret_cast<uintptr_t>(operand));
  }
  return hash;
}

bool same_node(const Node& a, const Node& b) {
  return &a.op() == &b.op() && a.operands() == b.operands() && a.attrs() == b.attrs();
}

}  // namespace

Result<int> share_common_subexpressions(Graph& graph) {
  int count = share_constants(graph);
  std::unordered_multimap<uint64_t, Node*> seen;
  for (Node* node = graph.first_node(); node != nullptr;) {
    Node* next = node->next();
    const uint64_t hash = hash_node(*node);
    const auto [begin, end] = seen.equal_range(hash);
    Node* same = nullptr;
    for (auto it = begin; it != end && same == nullptr; ++it) {
      if (same_node(*it->second, *node)) same = it->second;
    }
    if (same == nullptr) {
      seen.emplace(hash, node);
    } else {
      for (int i = 0; i < node->num_results(); ++i) {
        graph.replace_all_uses(node->result(i), same->result(i));
      }
      same->add_origins(node->origins());
      graph.erase(node);
      ++count;
    }
    node = next;
  }
  graph.remove_dead();
  return count;
}

Result<int> remove_dead_code(Graph& graph) { return graph.remove_dead(); }

}  // namespace downhaul

#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace downhaul::text {

/// Strings by their bytes: the children of a node lie next to each other. Immutable once made.
class ByteTrie {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  ByteTrie() : ByteTrie(std::vector<std::pair<std::string_view, uint32_t>>()) {}
  /// Strings with their values (below kNone); of equal strings the smallest value counts.
  explicit ByteTrie(std::vector<std::pair<std::string_view, uint32_t>> entries) {
    std::sort(entries.begin(), entries.end());
    // Level by level: a node is the range of sorted strings that share its bytes.
    struct Range {
      size_t begin, end, depth;
    };
    std::vector<Range> ranges = {{0, entries.size(), 0}};
    nodes_.emplace_back();
    labels_.push_back(0);
    for (size_t node = 0; node < nodes_.size(); ++node) {
      auto [begin, end, depth] = ranges[node];
      for (; begin < end && entries[begin].first.size() == depth; ++begin) {
        nodes_[node].value = std::min(nodes_[node].value, entries[begin].second);
      }
      nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
      while (begin < end) {
        const char byte = entries[begin].first[depth];
        size_t stop = begin;
        while (stop < end && entries[stop].first[depth] == byte) ++stop;
        nodes_.emplace_back();
        labels_.push_back(static_cast<uint8_t>(byte));
        ranges.push_back({begin, stop, depth + 1});
        begin = stop;
      }
      nodes_[node].num_children = static_cast<uint32_t>(nodes_.size()) - nodes_[node].first_child;
    }
  }

  static constexpr uint32_t kRoot = 0;
  /// The node that `byte` leads to; kRoot, which is nobody's child, when there is none.
  uint32_t child(uint32_t node, uint8_t byte) const {
    const Node& n = nodes_[node];
    const uint8_t* labels = labels_.data() + n.first_child;
    for (uint32_t i = 0; i < n.num_children; ++i) {
      if (labels[i] == byte) return n.first_child + i;
    }
    return kRoot;
  }
  /// Of the string that ends at `node`; kNone when none does.
  uint32_t value(uint32_t node) const { return nodes_[node].value; }
  bool empty() const { return nodes_.size() == 1; }

 private:
  struct Node {
    uint32_t first_child = 0;
    uint32_t num_children = 0;
    uint32_t value = kNone;
  };
  std::vector<Node> nodes_;
  std::vector<uint8_t> labels_;  ///< the byte that leads to a node
};

}  // namespace downhaul::text

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

/// `*.index.json` beside the shards of a checkpoint: which file holds which tensor.
namespace downhaul {

struct WeightIndex {
  std::string folder;               ///< of the index, with its slash; "" for the current one
  std::vector<std::string> shards;  ///< file names, in the order of their first mention
  struct Entry {
    std::string tensor;
    size_t shard = 0;  ///< index into `shards`
  };
  std::vector<Entry> entries;

  /// Checks that `found` (tensor name, shard) are exactly the entries. Errors: kInvalidFile naming
  /// the tensor that is missing, elsewhere, or not in the index.
  Status check(const std::vector<std::pair<std::string, size_t>>& found) const;
};

/// Errors: kInvalidFile for malformed text, a shard name with a folder in it.
Result<WeightIndex> read_weight_index(const std::string& path);

}  // namespace downhaul

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/byte_trie.h"
#include "text/definition.h"

namespace downhaul::text {

/// Finds added tokens in a text: leftmost first, of those the longest, without overlaps.
class AddedTokenMatcher {
 public:
  struct Match {
    std::optional<uint32_t> token;  ///< index of an AddedToken; none for the text between
    uint32_t begin, end;
  };

  AddedTokenMatcher() = default;
  /// Looks for `patterns`: texts that are not empty, each with the index of its token in `added`.
  /// `added` must outlive the matcher.
  AddedTokenMatcher(const std::vector<std::pair<std::string, uint32_t>>& patterns,
                    const std::vector<AddedToken>& added);

  bool empty() const { return trie_.empty(); }
  /// Appends what text[begin, end) consists of; empty stretches are left out.
  void split(std::string_view text, uint32_t begin, uint32_t end, std::vector<Match>& out) const;

 private:
  ByteTrie trie_;
  std::array<bool, 256> starts_{};  ///< bytes with which a pattern begins
  const std::vector<AddedToken>* added_ = nullptr;
};

}  // namespace downhaul::text

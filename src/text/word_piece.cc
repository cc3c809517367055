#include "text/models.h"

namespace downhaul::text {
namespace {

// Characters of UTF-8, counted no further than `limit` + 1.
size_t count_chars(std::string_view word, size_t limit) {
  size_t count = 0;
  for (const char c : word) {
    if ((static_cast<uint8_t>(c) & 0xC0) != 0x80 && ++count > limit) break;
  }
  return count;
}

}  // namespace

WordPieceModel::WordPieceModel(const Vocabulary& vocab, std::string_view prefix, uint32_t max_chars,
                               uint32_t unk_id)
    : trie_({vocab.begin(), vocab.end()}), max_chars_(max_chars), unk_id_(unk_id) {
  uint32_t below = ByteTrie::kRoot;
  bool found = true;
  for (const char c : prefix) {
    below = trie_.child(below, static_cast<uint8_t>(c));
    found = found && below != ByteTrie::kRoot;
    if (!found) break;
  }
  for (uint32_t b = 0; b < 256; ++b) {
    const auto byte = static_cast<uint8_t>(b);
    first_[b] = trie_.child(ByteTrie::kRoot, byte);
    continuing_[b] = found ? trie_.child(below, byte) : ByteTrie::kRoot;
  }
}

void WordPieceModel::tokenize(std::string_view word, std::vector<PieceToken>& out) const {
  const size_t before = out.size();
  const auto unknown = [&] {
    out.resize(before);
    out.push_back({unk_id_, 0, static_cast<uint32_t>(word.size())});
  };
  if (word.size() > max_chars_ && count_chars(word, max_chars_) > max_chars_) return unknown();
  for (size_t begin = 0; begin < word.size();) {
    const auto& table = begin == 0 ? first_ : continuing_;
    uint32_t id = ByteTrie::kNone;
    size_t end = begin;
    size_t at = begin;
    for (uint32_t node = table[static_cast<uint8_t>(word[at])]; node != ByteTrie::kRoot;) {
      ++at;
      if (trie_.value(node) != ByteTrie::kNone) {
        id = trie_.value(node);
        end = at;
      }
      if (at == word.size()) break;
      node = trie_.child(node, static_cast<uint8_t>(word[at]));
    }
    if (id == ByteTrie::kNone) return unknown();
    out.push_back({id, 0, static_cast<uint32_t>(end - begin)});
    begin = end;
  }
}

}  // namespace downhaul::text

#include <cstring>

#include "text/models.h"

namespace downhaul::text {
namespace {

// 16 Ki words: the vocabulary of long texts, and little enough to stay in the second-level cache.
constexpr size_t kSlots = 1 << 15;
constexpr size_t kMaxWords = kSlots / 2;
constexpr size_t kWordBytes = kMaxWords * 12;
constexpr size_t kPieceCount = kMaxWords * 3;

}  // namespace

WordCache::WordCache() : slots_(kSlots) {
  words_.reserve(kWordBytes);
  pieces_.reserve(kPieceCount);
}

const PieceToken* WordCache::find(std::string_view word, uint64_t hash, size_t& count) const {
  for (size_t i = hash % kSlots; slots_[i].count != 0; i = (i + 1) % kSlots) {
    const Slot& slot = slots_[i];
    if (slot.hash == hash && slot.length == word.size() &&
        std::memcmp(words_.data() + slot.word, word.data(), word.size()) == 0) {
      count = slot.count;
      return pieces_.data() + slot.pieces;
    }
  }
  return nullptr;
}

void WordCache::insert(std::string_view word, uint64_t hash, const PieceToken* pieces,
                       size_t count) {
  if (word.size() > kMaxWord || count == 0 || count > kMaxPieces) return;
  if (num_words_ == kMaxWords || words_.size() + word.size() > kWordBytes ||
      pieces_.size() + count > kPieceCount) {
    slots_.assign(kSlots, Slot{});
    words_.clear();
    pieces_.clear();
    num_words_ = 0;
  }
  ++num_words_;
  size_t i = hash % kSlots;
  while (slots_[i].count != 0) i = (i + 1) % kSlots;
  slots_[i] = {hash, static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(pieces_.size()),
               static_cast<uint16_t>(word.size()), static_cast<uint16_t>(count)};
  words_.insert(words_.end(), word.begin(), word.end());
  pieces_.insert(pieces_.end(), pieces, pieces + count);
}

}  // namespace downhaul::text

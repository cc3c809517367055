#include <algorithm>
#include <bit>

#include "base/strings.h"
#include "formats/json/utf8.h"
#include "text/models.h"
#include "text/unicode.h"

namespace downhaul::text {
namespace {

// Bytes that stand for themselves; the others are U+0100, U+0101, … in their order.
bool is_printable_byte(uint32_t b) {
  return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
}

struct ByteTables {
  std::array<uint16_t, 256> to_char;
  std::array<int16_t, 0x200> to_byte;
};

const ByteTables& tables() {
  static const ByteTables made = [] {
    ByteTables t;
    t.to_byte.fill(-1);
    uint16_t next = 0x100;
    for (uint16_t b = 0; b < 256; ++b) {
      const uint16_t c = is_printable_byte(b) ? b : next++;
      t.to_char[b] = c;
      t.to_byte[c] = static_cast<int16_t>(b);
    }
    return t;
  }();
  return made;
}

uint64_t mix(uint64_t key) { return (key ^ (key >> 29)) * 0x9E3779B97F4A7C15u; }

}  // namespace

uint32_t byte_to_char(uint8_t byte) { return tables().to_char[byte]; }

int char_to_byte(uint32_t c) { return c < 0x200 ? tables().to_byte[c] : -1; }

Result<BytePairModel> BytePairModel::make(const TokenizerDefinition& definition,
                                          const Vocabulary& vocab) {
  BytePairModel model;
  model.fuse_unk_ = definition.fuse_unk;
  if (definition.unk_token) {
    const auto at = vocab.find(*definition.unk_token);
    if (at == vocab.end()) {
      return invalid_file(
          cat("the vocabulary lacks the unknown token '", printable(*definition.unk_token), "'"));
    }
    model.unk_id_ = at->second;
  }
  for (uint32_t b = 0; b < 256; ++b) {
    std::string text;
    append_utf8(text, byte_to_char(static_cast<uint8_t>(b)));
    const auto at = vocab.find(text);
    model.byte_ids_[b] = at == vocab.end() ? kNone : at->second;
  }
  const size_t slots = std::bit_ceil(2 * definition.merges.size() + 2);
  model.merges_.assign(slots, Merge{kFree, 0, 0});
  std::string joined;
  for (size_t rank = 0; rank < definition.merges.size(); ++rank) {
    const auto& [left, right] = definition.merges[rank];
    joined.assign(left).append(right);
    uint32_t ids[3];
    const std::string_view texts[3] = {left, right, joined};
    for (size_t i = 0; i < 3; ++i) {
      const auto at = vocab.find(texts[i]);
      if (at == vocab.end()) {
        return invalid_file(cat("merge ", rank, " ('", printable(left), "' with '",
                                printable(right), "'): the vocabulary lacks '", printable(texts[i]),
                                "'"));
      }
      ids[i] = at->second;
    }
    const uint64_t key = static_cast<uint64_t>(ids[0]) << 32 | ids[1];
    size_t slot = mix(key) >> 32 & (slots - 1);
    while (model.merges_[slot].key != kFree && model.merges_[slot].key != key) {
      slot = (slot + 1) & (slots - 1);
    }
    model.merges_[slot] = {key, static_cast<uint32_t>(rank), ids[2]};
  }
  if (definition.ignore_merges) {
    for (const auto& [piece, id] : vocab) {
      std::string bytes;
      for (size_t at = 0; at < piece.size();) {
        const int byte = char_to_byte(decode_utf8(piece, at));
        if (byte < 0) {
          bytes.clear();
          break;
        }
        bytes.push_back(static_cast<char>(byte));
      }
      if (!bytes.empty()) model.whole_.emplace(std::move(bytes), id);
    }
  }
  return model;
}

const BytePairModel::Merge* BytePairModel::find(uint32_t left, uint32_t right) const {
  const uint64_t key = static_cast<uint64_t>(left) << 32 | right;
  const size_t mask = merges_.size() - 1;
  for (size_t slot = mix(key) >> 32 & mask; merges_[slot].key != kFree; slot = (slot + 1) & mask) {
    if (merges_[slot].key == key) return &merges_[slot];
  }
  return nullptr;
}

void BytePairModel::tokenize(std::string_view word, Scratch& scratch,
                             std::vector<PieceToken>& out) const {
  if (!whole_.empty()) {
    const auto at = whole_.find(std::string(word));
    if (at != whole_.end()) {
      out.push_back({at->second, 0, static_cast<uint32_t>(word.size())});
      return;
    }
  }
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  symbols.clear();
  heap.clear();
  for (size_t i = 0; i < word.size(); ++i) {
    uint32_t id = byte_ids_[static_cast<uint8_t>(word[i])];
    const auto begin = static_cast<uint32_t>(i);
    if (id == kNone) {
      id = unk_id_;
      if (id == kNone) continue;  // without an unknown token the reference drops the byte too
      const bool unknown_before = !symbols.empty() && symbols.back().id == kNone - 1;
      if (fuse_unk_ && unknown_before) {
        symbols.back().length += 1;
        continue;
      }
      id = kNone - 1;  // told apart from an unknown token that is a piece, until all are there
    }
    symbols.push_back({id, begin, 1, 0, 0});
  }
  const auto count = static_cast<uint32_t>(symbols.size());
  for (uint32_t i = 0; i < count; ++i) {
    if (symbols[i].id == kNone - 1) symbols[i].id = unk_id_;
    symbols[i].previous = i == 0 ? kNone : i - 1;
    symbols[i].next = i + 1 == count ? kNone : i + 1;
  }
  using Candidate = Scratch::Candidate;
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  const auto consider = [&](uint32_t left, uint32_t right) {
    const Merge* merge = find(symbols[left].id, symbols[right].id);
    if (merge == nullptr) return false;
    heap.push_back({merge->rank, left, merge->id});
    return true;
  };
  for (uint32_t i = 0; i + 1 < count; ++i) consider(i, i + 1);
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate top = heap.back();
    heap.pop_back();
    auto& left = symbols[top.position];
    if (left.length == 0 || left.next == kNone) continue;
    auto& right = symbols[left.next];
    // What stood here may have been merged since. Like the reference, a pair that gives the same
    // piece counts as the one that was meant.
    const Merge* merge = find(left.id, right.id);
    if (merge == nullptr || merge->id != top.id) continue;
    left.id = top.id;
    left.length = right.begin + right.length - left.begin;
    left.next = right.next;
    right.length = 0;
    if (left.next != kNone) symbols[left.next].previous = top.position;
    if (left.previous != kNone && consider(left.previous, top.position)) {
      std::push_heap(heap.begin(), heap.end(), later);
    }
    if (left.next != kNone && consider(top.position, left.next)) {
      std::push_heap(heap.begin(), heap.end(), later);
    }
  }
  uint32_t covered = 0;
  for (const auto& symbol : symbols) {
    if (symbol.length == 0) continue;
    out.push_back({symbol.id, symbol.begin - covered, symbol.length});
    covered = symbol.begin + symbol.length;
  }
}

}  // namespace downhaul::text

#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/byte_trie.h"
#include "text/definition.h"

/// From words to pieces.
namespace downhaul::text {

/// A piece of a word: its id, and how many bytes of the word it covers. A piece may cover none of
/// what stands before it when bytes without a token were dropped (`skipped`).
struct PieceToken {
  uint32_t id = 0;
  uint32_t skipped = 0;
  uint32_t length = 0;
};

/// The words met so far and their pieces. Starts over when it is full. Not for several threads.
class WordCache {
 public:
  static constexpr size_t kMaxWord = 64;    ///< bytes; longer words are not kept
  static constexpr size_t kMaxPieces = 32;  ///< pieces of a word that is kept

  WordCache();
  /// The pieces of `word`, whose hash_text is `hash`; nullptr when it is not here.
  const PieceToken* find(std::string_view word, uint64_t hash, size_t& count) const;
  void insert(std::string_view word, uint64_t hash, const PieceToken* pieces, size_t count);

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t word = 0;
    uint32_t pieces = 0;
    uint16_t length = 0;
    uint16_t count = 0;  ///< 0: the slot is free
  };
  std::vector<Slot> slots_;
  size_t num_words_ = 0;
  std::vector<char> words_;
  std::vector<PieceToken> pieces_;
};

using Vocabulary = std::unordered_map<std::string_view, uint32_t>;

/// Greedy longest match from the left. A word of which any part is unknown is unknown as a whole.
class WordPieceModel {
 public:
  /// `vocab` outlives the call only.
  WordPieceModel(const Vocabulary& vocab, std::string_view prefix, uint32_t max_chars,
                 uint32_t unk_id);
  /// Appends the pieces of `word`, which is not empty.
  void tokenize(std::string_view word, std::vector<PieceToken>& out) const;

 private:
  ByteTrie trie_;
  std::array<uint32_t, 256> first_;       ///< children of the root
  std::array<uint32_t, 256> continuing_;  ///< the same below the prefix of later pieces
  uint32_t max_chars_;
  uint32_t unk_id_;
};

/// Byte-level BPE: bytes are merged pair by pair, the merge of lowest rank first.
class BytePairModel {
 public:
  struct Scratch {
    struct Symbol {
      uint32_t id, begin, length;
      uint32_t previous, next;
    };
    struct Candidate {
      uint32_t rank, position, id;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  /// Errors: kInvalidFile naming the merge whose parts or result the vocabulary lacks.
  static Result<BytePairModel> make(const TokenizerDefinition& definition, const Vocabulary& vocab);
  /// Appends the pieces of the bytes of `word`, which is not empty.
  void tokenize(std::string_view word, Scratch& scratch, std::vector<PieceToken>& out) const;

 private:
  struct Merge {
    uint64_t key;  ///< left id << 32 | right id
    uint32_t rank;
    uint32_t id;
  };
  static constexpr uint64_t kFree = UINT64_MAX;
  static constexpr uint32_t kNone = UINT32_MAX;
  const Merge* find(uint32_t left, uint32_t right) const;

  std::array<uint32_t, 256> byte_ids_;
  std::vector<Merge> merges_;                        ///< open addressing, a power of two
  std::unordered_map<std::string, uint32_t> whole_;  ///< bytes -> id, for ignore_merges
  uint32_t unk_id_ = kNone;
  bool fuse_unk_ = false;
};

/// The printable character that byte-level vocabularies write for a byte.
uint32_t byte_to_char(uint8_t byte);
/// The byte that a character stands for; -1 when it is none of the 256.
int char_to_byte(uint32_t c);

}  // namespace downhaul::text

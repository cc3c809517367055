#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

/// Tokenizers of Hugging Face checkpoints: WordPiece as BERT and DistilBERT use it, and byte-level
/// BPE as GPT-2 and RoBERTa do. Ids and offsets are those of the Rust library `tokenizers`; what a
/// tokenizer.json asks for beyond these two families is refused by name. docs/tokenizers.md lists
/// what is supported.
namespace downhaul::text {

struct TokenizerDefinition;

/// A half-open range of a text.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

/// The tokens of one text or of a pair, special tokens and padding included. All vectors have one
/// entry a token.
struct Encoding {
  std::vector<uint32_t> ids;
  std::vector<uint32_t> type_ids;       ///< 0, or 1 for the second text where the model tells them
  std::vector<uint8_t> attention_mask;  ///< 1; 0 for padding
  std::vector<uint8_t> special_mask;    ///< 1 for what the post-processor or padding added
  std::vector<int8_t> sequence;         ///< 0 or 1: which text it comes from; -1 for added tokens
  std::vector<Span> byte_offsets;       ///< where in its text, in bytes; {0, 0} for added tokens
  std::vector<Span> offsets;            ///< the same in code points, as `tokenizers` counts
  bool truncated = false;               ///< something did not fit and was cut off

  size_t size() const { return ids.size(); }
  void clear();
};

enum class Side : uint8_t { kLeft, kRight };

enum class TruncationStrategy : uint8_t { kLongestFirst, kOnlyFirst, kOnlySecond };

struct Truncation {
  uint32_t max_length = 0;  ///< tokens that may stay, special ones included
  TruncationStrategy strategy = TruncationStrategy::kLongestFirst;
  Side side = Side::kRight;  ///< where tokens are cut off
};

struct Padding {
  uint32_t length = 0;       ///< shorter encodings are padded to it; 0: to their own length
  uint32_t multiple_of = 0;  ///< the length counts as the next multiple of it; 0: as it is
  uint32_t id = 0;
  uint32_t type_id = 0;
  Side side = Side::kRight;
};

struct EncodeOptions {
  bool add_special_tokens = true;
  /// Unset: what the tokenizer's file asks for, if anything.
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
};

/// A tokenizer. Immutable: one object serves any number of threads, each with a Workspace.
class Tokenizer {
 public:
  /// Buffers, and a cache of the words met so far (at most a few megabytes). For one thread at a
  /// time, and for one tokenizer.
  class Workspace {
   public:
    Workspace();
    ~Workspace();
    Workspace(Workspace&&) noexcept;
    Workspace& operator=(Workspace&&) noexcept;
    struct Impl;

   private:
    friend class Tokenizer;
    std::unique_ptr<Impl> impl_;
  };

  /// `path` is a folder, or one of the files in it: tokenizer.json, else vocab.json + merges.txt,
  /// else vocab.txt; tokenizer_config.json and special_tokens_map.json beside them are used when
  /// they are there.
  /// Errors, with the path: kNotFound, kIo; kInvalidFile for malformed files (repeated pieces or
  /// ids, holes in the ids, merges of unknown pieces, a missing unknown token); kUnsupported naming
  /// the component of a tokenizer.json that is not known here.
  static Result<Tokenizer> load(const std::string& path);
  /// The same from texts in memory. `config` is a tokenizer_config.json, "" for none.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json, std::string_view config = {});
  static Result<Tokenizer> from_word_pieces(std::string_view vocab_txt,
                                            std::string_view config = {});
  static Result<Tokenizer> from_byte_pairs(std::string_view vocab_json, std::string_view merges_txt,
                                           std::string_view config = {});

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Tokens of `text`, or of a text and its pair. Texts must be UTF-8 (see replace_invalid_utf8).
  /// Time is linear in the text, but for BPE of a single word without spaces: n log n.
  /// Errors: kInvalidArgument for invalid UTF-8 (with the byte), for a text of 1 GiB or more, for a
  /// truncation that special tokens alone exceed or that would leave nothing of the text it cuts.
  Result<Encoding> encode(std::string_view text, const EncodeOptions& options = {}) const;
  Result<Encoding> encode(std::string_view text, std::string_view pair,
                          const EncodeOptions& options = {}) const;
  /// The same without allocating anew: what `out` held is replaced. `pair` may be null.
  Status encode(std::string_view text, const std::string_view* pair, const EncodeOptions& options,
                Workspace& workspace, Encoding& out) const;

  /// Text of `ids` as the tokenizer's decoder puts it together; special tokens are left out when
  /// `skip_special`. Unknown ids are left out. Always UTF-8: bytes that are not become U+FFFD.
  std::string decode(std::span<const uint32_t> ids, bool skip_special = true) const;

  /// Number of ids; they are 0 … size - 1.
  size_t size() const;
  /// The piece of an id, as the vocabulary spells it (byte-level pieces in their printable
  /// characters); "" for an id outside.
  std::string_view piece(uint32_t id) const;
  std::optional<uint32_t> id_of(std::string_view piece) const;
  /// True for added tokens that the tokenizer calls special.
  bool is_special(uint32_t id) const;

  /// Tokens with a role, where the tokenizer has them.
  std::optional<uint32_t> mask_id() const;
  std::optional<uint32_t> pad_id() const;
  std::optional<uint32_t> unk_id() const;
  std::optional<uint32_t> cls_id() const;
  std::optional<uint32_t> sep_id() const;
  std::optional<uint32_t> bos_id() const;
  std::optional<uint32_t> eos_id() const;

  /// Special tokens that the post-processor adds to one text or to a pair.
  size_t num_added(bool pair) const;
  /// The model's limit on tokens (tokenizer_config.json); nullopt when none is stated.
  std::optional<uint32_t> model_max_length() const;
  Side padding_side() const;
  Side truncation_side() const;
  /// Padding to `length` with the tokenizer's own padding token and side; id 0 without one.
  Padding padding_to(uint32_t length) const;
  /// Cutting to `max_length` on the tokenizer's own side.
  Truncation truncation_to(uint32_t max_length,
                           TruncationStrategy strategy = TruncationStrategy::kLongestFirst) const;
  /// "WordPiece, 30522 tokens, lower case" and the like.
  std::string description() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  static Result<Tokenizer> make(TokenizerDefinition definition);
  std::unique_ptr<const Impl> impl_;
};

/// `text` with every maximal invalid part replaced by U+FFFD, as Python decodes with
/// errors="replace". `replaced`, when given, receives how many there were.
std::string replace_invalid_utf8(std::string_view text, size_t* replaced = nullptr);

}  // namespace downhaul::text

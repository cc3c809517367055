#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/tokenizer.h"

namespace downhaul {
class JsonReader;
}

/// What a tokenizer's files say, read and checked, before anything is made of it.
namespace downhaul::text {

struct AddedToken {
  uint32_t id = 0;
  std::string content;
  bool single_word = false;  ///< matches only where no word character is next to it
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< and that behind it
  bool normalized = false;   ///< is looked for in the normalized text
  bool special = false;      ///< left out when decoding
};

struct BertNormalizer {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  bool strip_accents = true;
  bool lowercase = true;
};

enum class ModelKind : uint8_t { kWordPiece, kBytePairs };
enum class PreTokenizerKind : uint8_t { kNone, kBert, kByteLevel };
enum class DecoderKind : uint8_t { kNone, kWordPiece, kByteLevel };

/// One element of a template: a text, or special tokens.
struct TemplatePiece {
  int sequence = -1;  ///< 0 or 1; -1 for special tokens
  std::vector<uint32_t> ids;
  uint32_t type_id = 0;
};

struct TokenizerDefinition {
  ModelKind model = ModelKind::kWordPiece;
  std::vector<std::pair<std::string, uint32_t>> vocab;
  std::optional<std::string> unk_token;
  // WordPiece
  std::string continuing_prefix = "##";
  uint32_t max_input_chars_per_word = 100;
  // BPE
  std::vector<std::pair<std::string, std::string>> merges;  ///< in the order of their ranks
  bool fuse_unk = false;
  bool ignore_merges = false;

  std::vector<AddedToken> added;
  std::optional<BertNormalizer> normalizer;
  PreTokenizerKind pre_tokenizer = PreTokenizerKind::kNone;
  bool add_prefix_space = false;
  bool use_regex = true;

  std::vector<TemplatePiece> single, pair;  ///< empty: nothing is added, the second text has type 1
  bool trim_offsets = false;                ///< offsets leave out the spaces of byte-level pieces
  bool trim_keeps_first_space = false;      ///< … but a single one where the text begins

  DecoderKind decoder = DecoderKind::kNone;
  std::string decoder_prefix = "##";
  bool decoder_cleanup = true;

  std::optional<Truncation> truncation;
  std::optional<Padding> padding;

  // tokenizer_config.json
  std::optional<uint32_t> model_max_length;
  Side padding_side = Side::kRight;
  Side truncation_side = Side::kRight;
  std::optional<std::string> mask_token, pad_token, cls_token, sep_token, bos_token, eos_token;
};

/// tokenizer_config.json, as far as it concerns tokens.
struct TokenizerConfig {
  bool mask_lstrip = false;  ///< the mask takes the space before it along
  std::string tokenizer_class;
  std::optional<uint32_t> model_max_length;
  Side padding_side = Side::kRight;
  Side truncation_side = Side::kRight;
  std::optional<bool> do_lower_case, strip_accents, tokenize_chinese_chars, add_prefix_space;
  std::optional<std::string> unk_token, mask_token, pad_token, cls_token, sep_token, bos_token,
      eos_token;
};

/// Errors of all: kInvalidFile, kUnsupported, without the path.
/// Reads into `config`; values that are there already are replaced by those in `text`.
Status read_tokenizer_config(std::string_view text, TokenizerConfig& config);
/// The object piece -> id that is current in `reader`, behind what `definition` has.
Status read_vocab(JsonReader& reader, TokenizerDefinition& definition);
Result<TokenizerDefinition> read_tokenizer_json(std::string_view text);
Result<TokenizerDefinition> read_word_pieces(std::string_view vocab_txt,
                                             const TokenizerConfig& config);
Result<TokenizerDefinition> read_byte_pairs(std::string_view vocab_json,
                                            std::string_view merges_txt,
                                            const TokenizerConfig& config);
/// Takes over what only the configuration says.
void apply_config(const TokenizerConfig& config, TokenizerDefinition& definition);

}  // namespace downhaul::text

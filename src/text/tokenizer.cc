#include "text/tokenizer.h"

#include <algorithm>
#include <variant>

#include "base/hash.h"
#include "base/strings.h"
#include "formats/json/utf8.h"
#include "text/added_tokens.h"
#include "text/decoder.h"
#include "text/definition.h"
#include "text/models.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"
#include "text/unicode.h"

namespace downhaul::text {
namespace {

constexpr size_t kMaxText = 1u << 30;

struct SpaceCounts {
  uint16_t leading = 0, trailing = 0;
};

// Characters at both ends of a piece that trim_offsets counts as spaces.
SpaceCounts count_spaces(std::string_view piece) {
  std::vector<bool> spaces;
  for (size_t at = 0; at < piece.size();) {
    const uint32_t c = decode_utf8(piece, at);
    spaces.push_back(c == 0x120 || (char_flags(c) & kSpace) != 0);
  }
  const auto to_count = [](ptrdiff_t n) {
    return static_cast<uint16_t>(std::min<ptrdiff_t>(n, UINT16_MAX));
  };
  const auto first = std::find(spaces.begin(), spaces.end(), false);
  const auto last = std::find(spaces.rbegin(), spaces.rend(), false);
  return {to_count(first - spaces.begin()), to_count(last - spaces.rbegin())};
}

size_t utf8_length(char lead) {
  const auto b = static_cast<uint8_t>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

}  // namespace

void Encoding::clear() {
  ids.clear();
  type_ids.clear();
  attention_mask.clear();
  special_mask.clear();
  sequence.clear();
  byte_offsets.clear();
  offsets.clear();
  truncated = false;
}

struct Tokenizer::Workspace::Impl {
  RawSequence first, second;
  std::vector<AddedTokenMatcher::Match> matches, inner_matches;
  std::vector<Span> words;
  std::vector<PieceToken> pieces;
  NormalizedText normalized;
  NormalizerScratch normalizer;
  BytePairModel::Scratch merging;
  std::string prefixed;
  WordCache cache;
};

Tokenizer::Workspace::Workspace() : impl_(std::make_unique<Impl>()) {}
Tokenizer::Workspace::~Workspace() = default;
Tokenizer::Workspace::Workspace(Workspace&&) noexcept = default;
Tokenizer::Workspace& Tokenizer::Workspace::operator=(Workspace&&) noexcept = default;

struct Tokenizer::Impl {
  TokenizerDefinition definition;
  std::vector<std::string> pieces;  ///< by id
  std::vector<bool> special;        ///< by id
  std::vector<SpaceCounts> spaces;  ///< by id; only for trim_offsets
  Vocabulary vocab;                 ///< of the model, and added tokens; views into `pieces`
  std::variant<std::monostate, WordPieceModel, BytePairModel> model;
  AddedTokenMatcher raw_matcher, normalized_matcher;
  /// Added tokens that are matched in normalized text are decoded to that form too.
  std::unordered_map<uint32_t, std::string> decoded_forms;
  std::optional<uint32_t> mask, pad, unk, cls, sep, bos, eos;

  Status index_pieces(Vocabulary& model_vocab);
  Status make_matchers();
  void find_roles();

  using Work = Workspace::Impl;
  void tokenize(Work& work, RawSequence& sequence) const;
  void add_token(uint32_t index, std::string_view slice, Span bytes, RawSequence& out) const;
  void tokenize_part(Work& work, std::string_view text, const uint32_t* origin, uint32_t begin,
                     uint32_t end, RawSequence& out) const;
  void tokenize_word(Work& work, std::string_view word) const;
};

Status Tokenizer::Impl::index_pieces(Vocabulary& model_vocab) {
  TokenizerDefinition& d = definition;
  if (d.vocab.empty()) return invalid_file("the vocabulary is empty");
  // An added token may be one of the vocabulary's own.
  std::unordered_map<std::string_view, uint32_t> known;
  for (const auto& [piece, id] : d.vocab) {
    if (!known.emplace(piece, id).second) {
      return invalid_file(cat("'", printable(piece), "' stands in the vocabulary twice"));
    }
  }
  std::vector<std::pair<std::string_view, uint32_t>> all(d.vocab.begin(), d.vocab.end());
  for (const AddedToken& token : d.added) {
    const auto at = known.find(token.content);
    if (at == known.end()) {
      known.emplace(token.content, token.id);
      all.emplace_back(token.content, token.id);
    } else if (at->second != token.id) {
      return invalid_file(cat("added token '", printable(token.content), "' has id ", token.id,
                              ", but the vocabulary says ", at->second));
    }
  }
  pieces.resize(all.size());
  std::vector<bool> taken(all.size());
  for (const auto& [piece, id] : all) {
    if (id >= all.size()) {
      return invalid_file(cat("'", printable(piece), "' has id ", id, ", but ", all.size(),
                              " tokens should have the ids 0 to ", all.size() - 1,
                              ": some id has no token"));
    }
    if (taken[id]) {
      return invalid_file(
          cat("'", printable(pieces[id]), "' and '", printable(piece), "' have the same id ", id));
    }
    taken[id] = true;
    pieces[id] = piece;
  }
  for (const auto& entry : d.vocab) model_vocab.emplace(pieces[entry.second], entry.second);
  for (uint32_t id = 0; id < pieces.size(); ++id) vocab.emplace(pieces[id], id);
  special.resize(pieces.size());
  for (const AddedToken& token : d.added) {
    if (token.special) special[token.id] = true;
  }
  if (d.trim_offsets) {
    for (const std::string& piece : pieces) spaces.push_back(count_spaces(piece));
  }
  for (const auto* pattern : {&d.single, &d.pair}) {
    for (const TemplatePiece& piece : *pattern) {
      for (const uint32_t id : piece.ids) {
        if (id >= pieces.size()) {
          return invalid_file(cat("the post-processor adds id ", id, ", which no token has"));
        }
      }
    }
  }
  d.vocab = {};
  return {};
}

Status Tokenizer::Impl::make_matchers() {
  std::vector<std::pair<std::string, uint32_t>> raw, normalized;
  NormalizerScratch scratch;
  for (uint32_t i = 0; i < definition.added.size(); ++i) {
    const AddedToken& token = definition.added[i];
    if (!token.normalized) {
      raw.emplace_back(token.content, i);
    } else if (!definition.normalizer) {
      normalized.emplace_back(token.content, i);
    } else {
      NormalizedText text;
      const auto size = static_cast<uint32_t>(token.content.size());
      normalize(*definition.normalizer, token.content, 0, size, scratch, text);
      if (text.text.empty()) {
        return unsupported(cat("added token '", printable(token.content),
                               "' is to be found in normalized text, but normalizes to nothing"));
      }
      decoded_forms[token.id] = text.text;
      normalized.emplace_back(std::move(text.text), i);
    }
  }
  raw_matcher = AddedTokenMatcher(raw, definition.added);
  normalized_matcher = AddedTokenMatcher(normalized, definition.added);
  return {};
}

void Tokenizer::Impl::find_roles() {
  const auto role = [&](const std::optional<std::string>& stated,
                        std::initializer_list<std::string_view> usual) -> std::optional<uint32_t> {
    if (stated) {
      const auto at = vocab.find(*stated);
      if (at != vocab.end()) return at->second;
      return std::nullopt;
    }
    for (const std::string_view name : usual) {
      const auto at = vocab.find(name);
      if (at != vocab.end()) return at->second;
    }
    return std::nullopt;
  };
  const TokenizerDefinition& d = definition;
  mask = role(d.mask_token, {"[MASK]", "<mask>"});
  pad = role(d.pad_token, {"[PAD]", "<pad>"});
  cls = role(d.cls_token, {"[CLS]", "<s>"});
  sep = role(d.sep_token, {"[SEP]", "</s>"});
  bos = role(d.bos_token, {"<s>", "<|endoftext|>"});
  eos = role(d.eos_token, {"</s>", "<|endoftext|>"});
  if (d.unk_token) unk = role(d.unk_token, {});
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::make(TokenizerDefinition definition) {
  auto impl = std::make_unique<Impl>();
  impl->definition = std::move(definition);
  const TokenizerDefinition& d = impl->definition;
  Vocabulary model_vocab;
  DH_TRY(impl->index_pieces(model_vocab));
  DH_TRY(impl->make_matchers());
  if (d.model == ModelKind::kWordPiece) {
    const std::string unk = d.unk_token.value_or("");
    const auto at = model_vocab.find(unk);
    if (at == model_vocab.end()) {
      return invalid_file(cat("the vocabulary lacks the unknown token '", printable(unk), "'"));
    }
    impl->model.emplace<WordPieceModel>(model_vocab, d.continuing_prefix,
                                        d.max_input_chars_per_word, at->second);
  } else {
    DH_ASSIGN(auto model, BytePairModel::make(d, model_vocab));
    impl->model.emplace<BytePairModel>(std::move(model));
    impl->definition.merges = {};
  }
  impl->find_roles();
  return Tokenizer(std::unique_ptr<const Impl>(std::move(impl)));
}

void Tokenizer::Impl::add_token(uint32_t index, std::string_view slice, Span bytes,
                                RawSequence& out) const {
  RawToken token = {definition.added[index].id, bytes, 0, 0};
  if (definition.trim_offsets) {
    const SpaceCounts counts = count_spaces(slice);
    token.leading_spaces = counts.leading;
    token.trailing_spaces = counts.trailing;
  }
  out.tokens.push_back(token);
}

// The pieces of one word, from the cache if it has been met before, in work.pieces.
void Tokenizer::Impl::tokenize_word(Work& work, std::string_view word) const {
  const bool short_word = word.size() <= WordCache::kMaxWord;
  uint64_t hash = 0;
  work.pieces.clear();
  if (short_word) {
    hash = hash_text(word);
    size_t count = 0;
    if (const PieceToken* found = work.cache.find(word, hash, count)) {
      work.pieces.assign(found, found + count);
      return;
    }
  }
  if (const auto* word_pieces = std::get_if<WordPieceModel>(&model)) {
    word_pieces->tokenize(word, work.pieces);
  } else {
    std::get<BytePairModel>(model).tokenize(word, work.merging, work.pieces);
  }
  if (short_word) work.cache.insert(word, hash, work.pieces.data(), work.pieces.size());
}

// text[begin, end) has no added tokens. `origin` says where its bytes come from in out.text; null
// when `text` is out.text.
void Tokenizer::Impl::tokenize_part(Work& work, std::string_view text, const uint32_t* origin,
                                    uint32_t begin, uint32_t end, RawSequence& out) const {
  std::string_view part = text.substr(begin, end - begin);
  uint32_t shift = 0;  // bytes in front of the part that are not in the text
  work.words.clear();
  switch (definition.pre_tokenizer) {
    case PreTokenizerKind::kNone:
      work.words.push_back({0, end - begin});
      break;
    case PreTokenizerKind::kBert:
      split_bert(part, work.words);
      break;
    case PreTokenizerKind::kByteLevel:
      if (definition.add_prefix_space && part[0] != ' ') {
        work.prefixed.assign(1, ' ').append(part);
        part = work.prefixed;
        shift = 1;
      }
      if (definition.use_regex) {
        split_byte_level(part, work.words);
      } else {
        work.words.push_back({0, static_cast<uint32_t>(part.size())});
      }
      break;
  }
  // Whole characters of the original text; an added space counts as the character behind it.
  const std::string_view original = out.text;
  const auto first_byte = [&](uint32_t at) {
    at = begin + (at < shift ? 0 : at - shift);
    if (origin != nullptr) return origin[at];
    while ((static_cast<uint8_t>(original[at]) & 0xC0) == 0x80) --at;
    return at;
  };
  const auto end_byte = [&](uint32_t last) {
    const uint32_t first = first_byte(last);
    return first + static_cast<uint32_t>(utf8_length(original[first]));
  };
  for (const Span word : work.words) {
    tokenize_word(work, part.substr(word.begin, word.end - word.begin));
    uint32_t at = word.begin;
    for (const PieceToken& piece : work.pieces) {
      at += piece.skipped;
      RawToken token = {piece.id, {first_byte(at), end_byte(at + piece.length - 1)}, 0, 0};
      if (definition.trim_offsets) {
        token.leading_spaces = spaces[piece.id].leading;
        token.trailing_spaces = spaces[piece.id].trailing;
      }
      out.tokens.push_back(token);
      at += piece.length;
    }
  }
}

void Tokenizer::Impl::tokenize(Work& work, RawSequence& sequence) const {
  sequence.tokens.clear();
  const std::string_view text = sequence.text;
  work.matches.clear();
  const auto size = static_cast<uint32_t>(text.size());
  if (raw_matcher.empty()) {
    if (size > 0) work.matches.push_back({std::nullopt, 0, size});
  } else {
    raw_matcher.split(text, 0, size, work.matches);
  }
  for (const auto& match : work.matches) {
    if (match.token) {
      add_token(*match.token, text.substr(match.begin, match.end - match.begin),
                {match.begin, match.end}, sequence);
      continue;
    }
    std::string_view part = text;
    const uint32_t* origin = nullptr;
    uint32_t begin = match.begin, end = match.end;
    if (definition.normalizer) {
      work.normalized.clear();
      normalize(*definition.normalizer, text, begin, end, work.normalizer, work.normalized);
      part = work.normalized.text;
      origin = work.normalized.origin.data();
      begin = 0;
      end = static_cast<uint32_t>(part.size());
    }
    if (begin == end) continue;
    if (normalized_matcher.empty()) {
      tokenize_part(work, part, origin, begin, end, sequence);
      continue;
    }
    work.inner_matches.clear();
    normalized_matcher.split(part, begin, end, work.inner_matches);
    for (const auto& inner : work.inner_matches) {
      if (!inner.token) {
        tokenize_part(work, part, origin, inner.begin, inner.end, sequence);
        continue;
      }
      Span bytes = {inner.begin, inner.end};
      if (origin != nullptr) {
        const uint32_t last = origin[inner.end - 1];
        bytes = {origin[inner.begin], last + static_cast<uint32_t>(utf8_length(text[last]))};
      }
      add_token(*inner.token, part.substr(inner.begin, inner.end - inner.begin), bytes, sequence);
    }
  }
}

Status Tokenizer::encode(std::string_view text, const std::string_view* pair,
                         const EncodeOptions& options, Workspace& workspace, Encoding& out) const {
  Workspace::Impl& work = *workspace.impl_;
  const auto read = [&](std::string_view from, RawSequence& to, std::string_view which) -> Status {
    if (from.size() >= kMaxText) {
      return invalid_argument(cat("the ", which, " is 1 GiB or longer"));
    }
    if (!is_valid_utf8(from)) return invalid_argument(cat("the ", which, " is not UTF-8"));
    to.text = from;
    impl_->tokenize(work, to);
    return {};
  };
  DH_TRY(read(text, work.first, "text"));
  if (pair != nullptr) DH_TRY(read(*pair, work.second, "second text"));
  return post_process(impl_->definition, options, work.first,
                      pair != nullptr ? &work.second : nullptr, out);
}

Result<Encoding> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Workspace workspace;
  Encoding out;
  DH_TRY(encode(text, nullptr, options, workspace, out));
  return out;
}

Result<Encoding> Tokenizer::encode(std::string_view text, std::string_view pair,
                                   const EncodeOptions& options) const {
  Workspace workspace;
  Encoding out;
  DH_TRY(encode(text, &pair, options, workspace, out));
  return out;
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, bool skip_special) const {
  std::vector<std::string_view> pieces;
  for (const uint32_t id : ids) {
    if (id >= size() || (skip_special && is_special(id))) continue;
    const auto form = impl_->decoded_forms.find(id);
    pieces.push_back(form != impl_->decoded_forms.end() ? std::string_view(form->second)
                                                        : piece(id));
  }
  return decode_pieces(impl_->definition, pieces);
}

size_t Tokenizer::size() const { return impl_->pieces.size(); }

std::string_view Tokenizer::piece(uint32_t id) const {
  return id < size() ? std::string_view(impl_->pieces[id]) : std::string_view();
}

std::optional<uint32_t> Tokenizer::id_of(std::string_view piece) const {
  const auto at = impl_->vocab.find(piece);
  if (at == impl_->vocab.end()) return std::nullopt;
  return at->second;
}

bool Tokenizer::is_special(uint32_t id) const { return id < size() && impl_->special[id]; }

std::optional<uint32_t> Tokenizer::mask_id() const { return impl_->mask; }
std::optional<uint32_t> Tokenizer::pad_id() const { return impl_->pad; }
std::optional<uint32_t> Tokenizer::unk_id() const { return impl_->unk; }
std::optional<uint32_t> Tokenizer::cls_id() const { return impl_->cls; }
std::optional<uint32_t> Tokenizer::sep_id() const { return impl_->sep; }
std::optional<uint32_t> Tokenizer::bos_id() const { return impl_->bos; }
std::optional<uint32_t> Tokenizer::eos_id() const { return impl_->eos; }

size_t Tokenizer::num_added(bool pair) const { return count_added(impl_->definition, pair); }

std::optional<uint32_t> Tokenizer::model_max_length() const {
  return impl_->definition.model_max_length;
}

Side Tokenizer::padding_side() const { return impl_->definition.padding_side; }
Side Tokenizer::truncation_side() const { return impl_->definition.truncation_side; }

Padding Tokenizer::padding_to(uint32_t length) const {
  return {.length = length, .id = pad_id().value_or(0), .side = padding_side()};
}

Truncation Tokenizer::truncation_to(uint32_t max_length, TruncationStrategy strategy) const {
  return {.max_length = max_length, .strategy = strategy, .side = truncation_side()};
}

std::string Tokenizer::description() const {
  const TokenizerDefinition& d = impl_->definition;
  const bool word_pieces = d.model == ModelKind::kWordPiece;
  return cat(word_pieces ? "WordPiece" : "byte-level BPE", ", ", size(), " tokens",
             d.normalizer && d.normalizer->lowercase ? ", lower case" : "");
}

}  // namespace downhaul::text

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/strings.h"
#include "formats/json/json.h"
#include "text/definition.h"
#include "text/tokenizer.h"

/// Tokenizers from the older files, the configuration beside them, and whole folders.
namespace downhaul::text {
namespace {

// Longer limits mean that there is none: transformers writes 1e30.
constexpr double kMaxModelLength = 1 << 30;

// A special token is its text, or an object with the text under "content".
std::optional<std::string> token_text(const JsonValue& value) {
  const JsonValue* content = value.find("content");
  const std::string* text = (content != nullptr ? *content : value).as_string();
  return text != nullptr ? std::optional(*text) : std::nullopt;
}

Result<Side> side(const JsonValue& value, std::string_view key) {
  const std::string* text = value.as_string();
  if (text != nullptr && *text == "left") return Side::kLeft;
  if (text != nullptr && *text == "right") return Side::kRight;
  return invalid_file(cat("'", key, "' is neither \"left\" nor \"right\""));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = split(text, '\n');
  for (std::string_view& line : lines) {
    if (line.ends_with('\r')) line.remove_suffix(1);
  }
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

const uint32_t* find_id(const TokenizerDefinition& d, std::string_view piece) {
  const auto at = std::find_if(d.vocab.begin(), d.vocab.end(),
                               [&](const auto& entry) { return entry.first == piece; });
  return at == d.vocab.end() ? nullptr : &at->second;
}

// Special tokens that the vocabulary has are cut out of texts.
void add_special(TokenizerDefinition& d, const std::string& piece, bool lstrip = false) {
  const uint32_t* id = find_id(d, piece);
  if (id == nullptr) return;
  for (const AddedToken& token : d.added) {
    if (token.content == piece) return;
  }
  AddedToken token;
  token.id = *id;
  token.content = piece;
  token.lstrip = lstrip;
  token.special = true;
  d.added.push_back(std::move(token));
}

// cls A sep, and what follows for a pair; neither token: nothing is added.
Status add_template(TokenizerDefinition& d, const std::string& cls, const std::string& sep,
                    bool roberta) {
  const uint32_t* cls_id = find_id(d, cls);
  const uint32_t* sep_id = find_id(d, sep);
  if (cls_id == nullptr && sep_id == nullptr) return {};
  if (cls_id == nullptr || sep_id == nullptr) {
    return invalid_file(cat("the vocabulary lacks '", printable(cls_id == nullptr ? cls : sep),
                            "', but has '", printable(cls_id == nullptr ? sep : cls), "'"));
  }
  const uint32_t second_type = roberta ? 0 : 1;
  const TemplatePiece open = {.ids = {*cls_id}};
  const TemplatePiece close = {.ids = {*sep_id}};
  const TemplatePiece a = {.sequence = 0};
  const TemplatePiece b = {.sequence = 1, .type_id = second_type};
  const TemplatePiece last = {.ids = {*sep_id}, .type_id = second_type};
  d.single = {open, a, close};
  d.pair = {open, a, close};
  if (roberta) d.pair.push_back(close);
  d.pair.push_back(b);
  d.pair.push_back(last);
  return {};
}

Result<std::string> read_optional(const std::filesystem::path& path) {
  if (!file_exists(path.string())) return std::string();
  return read_text_file(path.string());
}

}  // namespace

Status read_tokenizer_config(std::string_view text, TokenizerConfig& config) {
  DH_ASSIGN(const JsonValue json, JsonValue::parse(text));
  if (!json.is_object()) return invalid_file(cat("expected an object, found ", json.kind_name()));
  for (const auto& [key, value] : json.members()) {
    if (value.is_null()) continue;
    if (key == "tokenizer_class" && value.as_string() != nullptr) {
      config.tokenizer_class = *value.as_string();
    } else if (key == "model_max_length") {
      const auto n = value.as_double();
      if (!n || *n < 0) return invalid_file("'model_max_length' is no number of tokens");
      if (*n <= kMaxModelLength) config.model_max_length = static_cast<uint32_t>(*n);
    } else if (key == "padding_side") {
      DH_ASSIGN(config.padding_side, side(value, key));
    } else if (key == "truncation_side") {
      DH_ASSIGN(config.truncation_side, side(value, key));
    }
    for (const auto& [name, target] :
         {std::pair("do_lower_case", &config.do_lower_case),
          std::pair("strip_accents", &config.strip_accents),
          std::pair("tokenize_chinese_chars", &config.tokenize_chinese_chars),
          std::pair("add_prefix_space", &config.add_prefix_space)}) {
      if (key != name) continue;
      *target = value.as_bool();
      if (!*target) return invalid_file(cat("'", key, "' is neither true nor false"));
    }
    if (key == "mask_token" && value.find("lstrip") != nullptr) {
      config.mask_lstrip = value.find("lstrip")->as_bool().value_or(false);
    }
    for (const auto& [name, target] :
         {std::pair("unk_token", &config.unk_token), std::pair("mask_token", &config.mask_token),
          std::pair("pad_token", &config.pad_token), std::pair("cls_token", &config.cls_token),
          std::pair("sep_token", &config.sep_token), std::pair("bos_token", &config.bos_token),
          std::pair("eos_token", &config.eos_token)}) {
      if (key != name) continue;
      *target = token_text(value);
      if (!*target) return invalid_file(cat("'", key, "' is no token"));
    }
  }
  return {};
}

void apply_config(const TokenizerConfig& config, TokenizerDefinition& d) {
  d.model_max_length = config.model_max_length;
  d.padding_side = config.padding_side;
  d.truncation_side = config.truncation_side;
  d.mask_token = config.mask_token;
  d.pad_token = config.pad_token;
  d.cls_token = config.cls_token;
  d.sep_token = config.sep_token;
  d.bos_token = config.bos_token;
  d.eos_token = config.eos_token;
}

Result<TokenizerDefinition> read_word_pieces(std::string_view vocab_txt,
                                             const TokenizerConfig& config) {
  TokenizerDefinition d;
  for (const std::string_view line : lines_of(vocab_txt)) {
    d.vocab.emplace_back(std::string(line), static_cast<uint32_t>(d.vocab.size()));
  }
  d.model = ModelKind::kWordPiece;
  d.unk_token = config.unk_token.value_or("[UNK]");
  BertNormalizer n;
  n.lowercase = config.do_lower_case.value_or(true);
  n.strip_accents = config.strip_accents.value_or(n.lowercase);
  n.handle_chinese_chars = config.tokenize_chinese_chars.value_or(true);
  d.normalizer = n;
  d.pre_tokenizer = PreTokenizerKind::kBert;
  d.decoder = DecoderKind::kWordPiece;
  const std::string cls = config.cls_token.value_or("[CLS]");
  const std::string sep = config.sep_token.value_or("[SEP]");
  for (const std::string& token : {config.pad_token.value_or("[PAD]"), *d.unk_token, cls, sep,
                                   config.mask_token.value_or("[MASK]")}) {
    add_special(d, token);
  }
  DH_TRY(add_template(d, cls, sep, false));
  apply_config(config, d);
  return d;
}

Result<TokenizerDefinition> read_byte_pairs(std::string_view vocab_json,
                                            std::string_view merges_txt,
                                            const TokenizerConfig& config) {
  TokenizerDefinition d;
  JsonReader reader(vocab_json);
  DH_TRY(read_vocab(reader, d));
  DH_TRY(reader.finish());
  size_t number = 0;
  for (const std::string_view line : lines_of(merges_txt)) {
    ++number;
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const auto parts = split(line, ' ');
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
      return invalid_file(
          cat("merges, line ", number, ": expected two pieces, found '", printable(line), "'"));
    }
    d.merges.emplace_back(std::string(parts[0]), std::string(parts[1]));
  }
  d.model = ModelKind::kBytePairs;
  d.pre_tokenizer = PreTokenizerKind::kByteLevel;
  d.add_prefix_space = config.add_prefix_space.value_or(false);
  d.decoder = DecoderKind::kByteLevel;
  // RoBERTa and its relatives put their text between <s> and </s>; GPT-2 adds nothing.
  const std::string cls = config.cls_token.value_or("<s>");
  const std::string sep = config.sep_token.value_or("</s>");
  const bool roberta = config.tokenizer_class.empty()
                           ? find_id(d, cls) != nullptr && find_id(d, sep) != nullptr
                           : config.tokenizer_class.find("Roberta") != std::string::npos;
  if (roberta) {
    for (const std::string& token :
         {cls, config.pad_token.value_or("<pad>"), sep, config.unk_token.value_or("<unk>")}) {
      add_special(d, token);
    }
    add_special(d, config.mask_token.value_or("<mask>"), config.mask_lstrip);
    DH_TRY(add_template(d, cls, sep, true));
    d.trim_offsets = true;
    d.trim_keeps_first_space = d.add_prefix_space;
  } else {
    for (const auto& token : {config.bos_token, config.eos_token, config.unk_token,
                              config.pad_token, std::optional<std::string>("<|endoftext|>")}) {
      if (token) add_special(d, *token);
    }
  }
  apply_config(config, d);
  return d;
}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json, std::string_view config) {
  TokenizerConfig c;
  if (!config.empty()) DH_TRY(read_tokenizer_config(config, c));
  DH_ASSIGN(auto definition, read_tokenizer_json(tokenizer_json));
  apply_config(c, definition);
  return make(std::move(definition));
}

Result<Tokenizer> Tokenizer::from_word_pieces(std::string_view vocab_txt, std::string_view config) {
  TokenizerConfig c;
  if (!config.empty()) DH_TRY(read_tokenizer_config(config, c));
  DH_ASSIGN(auto definition, read_word_pieces(vocab_txt, c));
  return make(std::move(definition));
}

Result<Tokenizer> Tokenizer::from_byte_pairs(std::string_view vocab_json,
                                             std::string_view merges_txt, std::string_view config) {
  TokenizerConfig c;
  if (!config.empty()) DH_TRY(read_tokenizer_config(config, c));
  DH_ASSIGN(auto definition, read_byte_pairs(vocab_json, merges_txt, c));
  return make(std::move(definition));
}

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  namespace fs = std::filesystem;
  const bool folder = is_directory(path);
  const fs::path base = folder ? fs::path(path) : fs::path(path).parent_path();
  const std::string name = folder ? "" : fs::path(path).filename().string();
  const auto context = [](const fs::path& file) {
    return cat("while reading '", printable(file.string()), "'");
  };

  TokenizerConfig config;
  for (const char* file : {"special_tokens_map.json", "tokenizer_config.json"}) {
    DH_ASSIGN(const std::string text, read_optional(base / file));
    if (text.empty()) continue;
    auto status = read_tokenizer_config(text, config);
    if (!status.ok()) return std::move(status).with_context(context(base / file));
  }
  const auto finish = [&](Result<TokenizerDefinition> read,
                          const fs::path& file) -> Result<Tokenizer> {
    if (!read.ok()) return std::move(read).status().with_context(context(file));
    apply_config(config, *read);
    auto made = make(*std::move(read));
    if (!made.ok()) return std::move(made).status().with_context(context(file));
    return made;
  };

  const fs::path json = folder ? base / "tokenizer.json" : fs::path(path);
  const bool named_json = !folder && name.ends_with(".json") && name != "vocab.json";
  if (named_json || (folder && file_exists(json.string()))) {
    DH_ASSIGN(const std::string text, read_text_file(json.string()));
    return finish(read_tokenizer_json(text), json);
  }
  const fs::path vocab_json = base / "vocab.json", merges = base / "merges.txt";
  const bool named_pairs = name == "vocab.json" || name == "merges.txt";
  if (named_pairs || (folder && file_exists(vocab_json.string()))) {
    DH_ASSIGN(const std::string vocab_text, read_text_file(vocab_json.string()));
    DH_ASSIGN(const std::string merges_text, read_text_file(merges.string()));
    return finish(read_byte_pairs(vocab_text, merges_text, config), vocab_json);
  }
  const fs::path vocab_txt = folder ? base / "vocab.txt" : fs::path(path);
  if (folder && !file_exists(vocab_txt.string())) {
    return not_found(cat("'", printable(path),
                         "' has no tokenizer: neither tokenizer.json, nor vocab.json with "
                         "merges.txt, nor vocab.txt"));
  }
  DH_ASSIGN(const std::string text, read_text_file(vocab_txt.string()));
  return finish(read_word_pieces(text, config), vocab_txt);
}

}  // namespace downhaul::text

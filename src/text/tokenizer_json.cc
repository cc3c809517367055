#include <algorithm>
#include <initializer_list>
#include <utility>

#include "base/strings.h"
#include "formats/json/json.h"
#include "text/definition.h"

/// tokenizer.json: vocabulary and merges are pulled out of the text, the other components are small
/// and read as documents. Whatever a component asks for that is not known here is refused.
namespace downhaul::text {
namespace {

constexpr uint32_t kMaxSpecialIds = 16;  // of one special token in a template

// One component, with what it is called in messages.
class Component {
 public:
  Component(const JsonValue& value, std::string what) : value_(value), what_(std::move(what)) {}

  const std::string& what() const { return what_; }
  const JsonValue& value() const { return value_; }

  /// "" for a component without one.
  std::string type() const {
    const JsonValue* type = value_.find("type");
    const std::string* name = type != nullptr ? type->as_string() : nullptr;
    return name != nullptr ? *name : std::string();
  }

  Status unknown_type() const {
    const std::string name = type();
    if (name.empty()) {
      return invalid_file(
          cat(what_, ": expected an object with a type, found ", value_.kind_name()));
    }
    return unsupported(cat(what_, " type '", printable(name), "' is not supported"));
  }

  /// Refuses members other than "type" and these.
  Status only(std::initializer_list<std::string_view> names) const {
    for (const auto& [key, value] : value_.members()) {
      if (key != "type" && std::find(names.begin(), names.end(), key) == names.end()) {
        return unsupported(cat(what_, ": setting '", printable(key), "' is not supported"));
      }
    }
    return {};
  }

  /// null and absent leave `out` as it is.
  Status get(std::string_view key, bool& out) const {
    const JsonValue* v = find(key);
    if (v == nullptr) return {};
    const auto b = v->as_bool();
    if (!b) return expected(key, "true or false", *v);
    out = *b;
    return {};
  }
  Status get(std::string_view key, uint32_t& out) const {
    const JsonValue* v = find(key);
    if (v == nullptr) return {};
    const auto n = v->as_int();
    if (!n || *n < 0 || *n > INT32_MAX) return expected(key, "an integer from 0 to 2147483647", *v);
    out = static_cast<uint32_t>(*n);
    return {};
  }
  Status get(std::string_view key, std::string& out) const {
    const JsonValue* v = find(key);
    if (v == nullptr) return {};
    if (v->as_string() == nullptr) return expected(key, "a string", *v);
    out = *v->as_string();
    return {};
  }
  template <typename T>
  Status require(std::string_view key, T& out) const {
    if (find(key) == nullptr) return invalid_file(cat(what_, ": '", key, "' is missing"));
    return get(key, out);
  }

  Status expected(std::string_view key, std::string_view wanted, const JsonValue& found) const {
    return invalid_file(
        cat(what_, ": '", key, "': expected ", wanted, ", found ", found.kind_name()));
  }

 private:
  const JsonValue* find(std::string_view key) const {
    const JsonValue* v = value_.find(key);
    return v == nullptr || v->is_null() ? nullptr : v;
  }
  const JsonValue& value_;
  std::string what_;
};

Result<Side> read_side(const Component& c, std::string_view key, const std::string& name) {
  if (name == "Left" || name == "left") return Side::kLeft;
  if (name == "Right" || name == "right" || name.empty()) return Side::kRight;
  return unsupported(cat(c.what(), ": ", key, " '", printable(name), "' is not supported"));
}

Status read_truncation(const JsonValue& value, TokenizerDefinition& d) {
  if (value.is_null()) return {};
  const Component c(value, "truncation");
  if (!value.is_object()) return c.unknown_type();
  DH_TRY(c.only({"max_length", "strategy", "stride", "direction"}));
  Truncation t;
  std::string strategy = "LongestFirst", direction;
  DH_TRY(c.require("max_length", t.max_length));
  DH_TRY(c.get("strategy", strategy));
  DH_TRY(c.get("direction", direction));
  DH_ASSIGN(t.side, read_side(c, "direction", direction));
  if (strategy == "OnlyFirst") {
    t.strategy = TruncationStrategy::kOnlyFirst;
  } else if (strategy == "OnlySecond") {
    t.strategy = TruncationStrategy::kOnlySecond;
  } else if (strategy != "LongestFirst") {
    return unsupported(cat("truncation: strategy '", printable(strategy), "' is not supported"));
  }
  d.truncation = t;
  return {};
}

Status read_padding(const JsonValue& value, TokenizerDefinition& d) {
  if (value.is_null()) return {};
  const Component c(value, "padding");
  if (!value.is_object()) return c.unknown_type();
  DH_TRY(c.only(
      {"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"}));
  Padding p;
  std::string direction, token;
  DH_TRY(c.get("direction", direction));
  DH_ASSIGN(p.side, read_side(c, "direction", direction));
  DH_TRY(c.get("pad_to_multiple_of", p.multiple_of));
  DH_TRY(c.get("pad_id", p.id));
  DH_TRY(c.get("pad_type_id", p.type_id));
  DH_TRY(c.get("pad_token", token));
  constexpr uint32_t kMaxPadding = 1 << 20;
  const JsonValue* strategy = value.find("strategy");
  if (strategy != nullptr && strategy->is_object()) {
    const Component fixed(*strategy, "padding strategy");
    DH_TRY(fixed.only({"Fixed"}));
    DH_TRY(fixed.require("Fixed", p.length));
  } else if (strategy == nullptr || strategy->as_string() == nullptr ||
             *strategy->as_string() != "BatchLongest") {
    return unsupported("padding: the strategy is neither BatchLongest nor Fixed");
  }
  if (p.length > kMaxPadding || p.multiple_of > kMaxPadding) {
    return unsupported(cat("padding: to more than ", kMaxPadding, " tokens"));
  }
  d.padding = p;
  return {};
}

Status read_added_token(const JsonValue& value, size_t index, TokenizerDefinition& d) {
  const Component c(value, cat("added token ", index));
  if (!value.is_object()) return c.unknown_type();
  DH_TRY(c.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken t;
  DH_TRY(c.require("id", t.id));
  DH_TRY(c.require("content", t.content));
  DH_TRY(c.get("special", t.special));
  t.normalized = !t.special;
  DH_TRY(c.get("single_word", t.single_word));
  DH_TRY(c.get("lstrip", t.lstrip));
  DH_TRY(c.get("rstrip", t.rstrip));
  DH_TRY(c.get("normalized", t.normalized));
  if (t.content.empty()) return invalid_file(cat("added token ", index, " is empty"));
  d.added.push_back(std::move(t));
  return {};
}

Status read_normalizer(const JsonValue& value, TokenizerDefinition& d) {
  if (value.is_null()) return {};
  const Component c(value, "normalizer");
  const std::string type = c.type();
  if (type == "Sequence") {
    DH_TRY(c.only({"normalizers"}));
    const JsonValue* parts = value.find("normalizers");
    if (parts == nullptr || !parts->is_array()) {
      return invalid_file("normalizer: 'normalizers' is not a list");
    }
    for (const JsonValue& part : parts->elements()) DH_TRY(read_normalizer(part, d));
    return {};
  }
  if (type != "BertNormalizer") return c.unknown_type();
  if (d.normalizer) return unsupported("normalizer: more than one is not supported");
  DH_TRY(c.only({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}));
  BertNormalizer n;
  DH_TRY(c.get("clean_text", n.clean_text));
  DH_TRY(c.get("handle_chinese_chars", n.handle_chinese_chars));
  DH_TRY(c.get("lowercase", n.lowercase));
  n.strip_accents = n.lowercase;  // null follows lowercase
  DH_TRY(c.get("strip_accents", n.strip_accents));
  d.normalizer = n;
  return {};
}

Status read_pre_tokenizer(const JsonValue& value, TokenizerDefinition& d) {
  if (value.is_null()) return {};
  const Component c(value, "pre_tokenizer");
  const std::string type = c.type();
  if (type == "Sequence") {
    DH_TRY(c.only({"pretokenizers"}));
    const JsonValue* parts = value.find("pretokenizers");
    if (parts == nullptr || !parts->is_array()) {
      return invalid_file("pre_tokenizer: 'pretokenizers' is not a list");
    }
    for (const JsonValue& part : parts->elements()) DH_TRY(read_pre_tokenizer(part, d));
    return {};
  }
  if (type != "BertPreTokenizer" && type != "ByteLevel") return c.unknown_type();
  if (d.pre_tokenizer != PreTokenizerKind::kNone) {
    return unsupported("pre_tokenizer: more than one is not supported");
  }
  if (type == "BertPreTokenizer") {
    DH_TRY(c.only({}));
    d.pre_tokenizer = PreTokenizerKind::kBert;
    return {};
  }
  DH_TRY(c.only({"add_prefix_space", "trim_offsets", "use_regex"}));
  d.add_prefix_space = true;  // the library's default
  DH_TRY(c.get("add_prefix_space", d.add_prefix_space));
  DH_TRY(c.get("use_regex", d.use_regex));
  d.pre_tokenizer = PreTokenizerKind::kByteLevel;
  return {};
}

// [CLS] A [SEP] and the like.
Status read_template(const Component& c, std::string_view key, std::vector<TemplatePiece>& out) {
  const JsonValue* list = c.value().find(key);
  if (list == nullptr || !list->is_array()) {
    return invalid_file(cat(c.what(), ": '", key, "' is not a list"));
  }
  const JsonValue* specials = c.value().find("special_tokens");
  bool has_sequence[2] = {false, false};
  for (const JsonValue& element : list->elements()) {
    TemplatePiece piece;
    const JsonValue* sequence = element.find("Sequence");
    const JsonValue* special = element.find("SpecialToken");
    if ((sequence == nullptr) == (special == nullptr)) {
      return unsupported(
          cat(c.what(), ": '", key, "' has an element that is neither Sequence nor SpecialToken"));
    }
    const Component part(sequence != nullptr ? *sequence : *special, cat(c.what(), " ", key));
    std::string id;
    DH_TRY(part.require("id", id));
    DH_TRY(part.get("type_id", piece.type_id));
    if (sequence != nullptr) {
      if (id != "A" && id != "B") {
        return invalid_file(cat(c.what(), ": sequence '", printable(id), "' is neither A nor B"));
      }
      piece.sequence = id == "A" ? 0 : 1;
      if (std::exchange(has_sequence[piece.sequence], true)) {
        return unsupported(cat(c.what(), ": '", key, "' has sequence ", id, " twice"));
      }
    } else {
      const JsonValue* known = specials != nullptr ? specials->find(id) : nullptr;
      const JsonValue* ids = known != nullptr ? known->find("ids") : nullptr;
      if (ids == nullptr || !ids->is_array()) {
        return invalid_file(
            cat(c.what(), ": special token '", printable(id), "' has no ids in special_tokens"));
      }
      for (const JsonValue& value : ids->elements()) {
        const auto n = value.as_int();
        if (!n || *n < 0 || *n > INT32_MAX || piece.ids.size() == kMaxSpecialIds) {
          return invalid_file(
              cat(c.what(), ": special token '", printable(id), "' has ids that cannot be"));
        }
        piece.ids.push_back(static_cast<uint32_t>(*n));
      }
    }
    out.push_back(std::move(piece));
  }
  if (!has_sequence[0] || has_sequence[1] != (key == "pair")) {
    return invalid_file(cat(c.what(), ": '", key, "' does not have the texts it should"));
  }
  return {};
}

// BertProcessing and RobertaProcessing: "cls" and "sep" are [text, id].
Status read_cls_sep(const Component& c, bool roberta, TokenizerDefinition& d) {
  TemplatePiece cls, sep;
  for (auto& [key, piece] : {std::pair("cls", &cls), std::pair("sep", &sep)}) {
    const JsonValue* value = c.value().find(key);
    const auto* pair = value != nullptr ? value->as_array() : nullptr;
    const auto id = pair != nullptr && pair->size() == 2 ? (*pair)[1].as_int() : std::nullopt;
    if (!id || *id < 0 || *id > INT32_MAX) {
      return invalid_file(cat(c.what(), ": '", key, "' is not a text and its id"));
    }
    piece->ids.push_back(static_cast<uint32_t>(*id));
  }
  const TemplatePiece a = {.sequence = 0};
  TemplatePiece b = {.sequence = 1, .type_id = roberta ? 0u : 1u};
  TemplatePiece last = sep;
  last.type_id = b.type_id;
  d.single = {cls, a, sep};
  d.pair = roberta ? std::vector<TemplatePiece>{cls, a, sep, sep, b, last}
                   : std::vector<TemplatePiece>{cls, a, sep, b, last};
  return {};
}

Status read_post_processor(const JsonValue& value, TokenizerDefinition& d) {
  if (value.is_null()) return {};
  const Component c(value, "post_processor");
  const std::string type = c.type();
  const bool has_template = !d.single.empty();
  if (type == "Sequence") {
    DH_TRY(c.only({"processors"}));
    const JsonValue* parts = value.find("processors");
    if (parts == nullptr || !parts->is_array()) {
      return invalid_file("post_processor: 'processors' is not a list");
    }
    for (const JsonValue& part : parts->elements()) DH_TRY(read_post_processor(part, d));
    return {};
  }
  if (has_template) {
    return unsupported(cat("post_processor: ", printable(type.empty() ? "one" : type),
                           " after another one that adds tokens is not supported"));
  }
  if (type == "ByteLevel" || type == "RobertaProcessing") {
    bool trim = true, keep_first = true;
    DH_TRY(c.get("trim_offsets", trim));
    DH_TRY(c.get("add_prefix_space", keep_first));
    if (trim) {
      if (d.trim_offsets) return unsupported("post_processor: trim_offsets twice");
      d.trim_offsets = true;
      d.trim_keeps_first_space = keep_first;
    }
  }
  if (type == "ByteLevel") return c.only({"trim_offsets", "add_prefix_space", "use_regex"});
  if (type == "RobertaProcessing") {
    DH_TRY(c.only({"cls", "sep", "trim_offsets", "add_prefix_space"}));
    return read_cls_sep(c, true, d);
  }
  if (type == "BertProcessing") {
    DH_TRY(c.only({"cls", "sep"}));
    return read_cls_sep(c, false, d);
  }
  if (type != "TemplateProcessing") return c.unknown_type();
  DH_TRY(c.only({"single", "pair", "special_tokens"}));
  DH_TRY(read_template(c, "single", d.single));
  return read_template(c, "pair", d.pair);
}

Status read_decoder(const JsonValue& value, TokenizerDefinition& d) {
  if (value.is_null()) return {};
  const Component c(value, "decoder");
  const std::string type = c.type();
  if (type == "WordPiece") {
    DH_TRY(c.only({"prefix", "cleanup"}));
    DH_TRY(c.get("prefix", d.decoder_prefix));
    DH_TRY(c.get("cleanup", d.decoder_cleanup));
    d.decoder = DecoderKind::kWordPiece;
    return {};
  }
  if (type != "ByteLevel") return c.unknown_type();
  DH_TRY(c.only({"add_prefix_space", "trim_offsets", "use_regex"}));
  d.decoder = DecoderKind::kByteLevel;
  return {};
}

Status read_merges(JsonReader& reader, TokenizerDefinition& d) {
  return reader.array([&]() -> Status {
    std::vector<std::string> parts;
    if (reader.kind() == JsonReader::Kind::kString) {
      std::string text;
      DH_TRY(reader.read(text));
      for (const std::string_view part : split(text, ' ')) parts.emplace_back(part);
    } else {
      DH_TRY(reader.array([&]() -> Status {
        if (parts.size() > 2) return reader.error("a merge has two parts");
        return reader.read(parts.emplace_back());
      }));
    }
    if (parts.size() != 2 || parts[0].empty() || parts[1].empty()) {
      return reader.error(cat("merge ", d.merges.size(), " does not have two parts"));
    }
    d.merges.emplace_back(std::move(parts[0]), std::move(parts[1]));
    return {};
  });
}

Status finish_word_piece(const Component& c, TokenizerDefinition& d) {
  DH_TRY(c.only({"unk_token", "continuing_subword_prefix", "max_input_chars_per_word"}));
  d.model = ModelKind::kWordPiece;
  std::string unk = "[UNK]";
  DH_TRY(c.get("unk_token", unk));
  d.unk_token = unk;
  DH_TRY(c.get("continuing_subword_prefix", d.continuing_prefix));
  DH_TRY(c.get("max_input_chars_per_word", d.max_input_chars_per_word));
  if (d.pre_tokenizer == PreTokenizerKind::kByteLevel) {
    return unsupported("pre_tokenizer ByteLevel with a WordPiece model is not supported");
  }
  return {};
}

Status finish_byte_pairs(const Component& c, TokenizerDefinition& d) {
  DH_TRY(c.only({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                 "fuse_unk", "byte_fallback", "ignore_merges"}));
  d.model = ModelKind::kBytePairs;
  const JsonValue* dropout = c.value().find("dropout");
  if (dropout != nullptr && !dropout->is_null() && dropout->as_double() != 0.0) {
    return unsupported("model BPE: setting 'dropout' is not supported");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    std::string text;
    DH_TRY(c.get(key, text));
    if (!text.empty()) {
      return unsupported(cat("model BPE: setting '", key, "' is not supported"));
    }
  }
  bool fallback = false;
  DH_TRY(c.get("byte_fallback", fallback));
  if (fallback) return unsupported("model BPE: setting 'byte_fallback' is not supported");
  std::string unk;
  DH_TRY(c.get("unk_token", unk));
  if (!unk.empty()) d.unk_token = unk;
  DH_TRY(c.get("fuse_unk", d.fuse_unk));
  DH_TRY(c.get("ignore_merges", d.ignore_merges));
  if (d.pre_tokenizer != PreTokenizerKind::kByteLevel) {
    return unsupported("model BPE without the pre_tokenizer ByteLevel is not supported");
  }
  return {};
}

bool note_key(std::vector<std::string>& seen, std::string_view key) {
  if (std::find(seen.begin(), seen.end(), key) != seen.end()) return false;
  seen.emplace_back(key);
  return true;
}

}  // namespace

Status read_vocab(JsonReader& reader, TokenizerDefinition& d) {
  return reader.object([&](std::string_view key) -> Status {
    d.vocab.emplace_back(std::string(key), 0);
    int64_t id = 0;
    DH_TRY(reader.read(id));
    if (id < 0 || id > INT32_MAX) return reader.error(cat("token id ", id, " cannot be"));
    d.vocab.back().second = static_cast<uint32_t>(id);
    return {};
  });
}

Result<TokenizerDefinition> read_tokenizer_json(std::string_view text) {
  TokenizerDefinition d;
  JsonReader reader(text);
  std::vector<std::string> seen, seen_in_model;
  JsonValue::Object settings;  // of the model, but for its large members
  JsonValue normalizer, pre_tokenizer, post_processor, decoder;
  bool has_model = false, has_vocab = false;
  const auto read_model = [&](std::string_view key) -> Status {
    if (!note_key(seen_in_model, key)) {
      return reader.error(cat("duplicate key '", printable(key), "'"));
    }
    if (key == "vocab" && reader.kind() == JsonReader::Kind::kObject) {
      has_vocab = true;
      return read_vocab(reader, d);
    }
    if (key == "vocab") return reader.skip();  // the type tells what it is
    if (key == "merges") return read_merges(reader, d);
    const std::string name(key);
    if (settings.size() > 64) return reader.error("the model has too many settings");
    DH_ASSIGN(auto value, JsonValue::read(reader));
    settings.emplace_back(name, std::move(value));
    return {};
  };
  DH_TRY(reader.object([&](std::string_view key_in_text) -> Status {
    const std::string key(key_in_text);
    if (seen.size() > 64) return reader.error("too many members");
    if (!note_key(seen, key)) {
      return reader.error(cat("duplicate key '", printable(key), "'"));
    }
    if (key == "model") {
      has_model = true;
      return reader.object(read_model);
    }
    if (key == "added_tokens" && reader.kind() == JsonReader::Kind::kArray) {
      size_t index = 0;
      return reader.array([&]() -> Status {
        DH_ASSIGN(const auto value, JsonValue::read(reader));
        return read_added_token(value, index++, d);
      });
    }
    DH_ASSIGN(auto value, JsonValue::read(reader));
    if (key == "truncation") return read_truncation(value, d);
    if (key == "padding") return read_padding(value, d);
    if (key == "normalizer") normalizer = std::move(value);
    if (key == "pre_tokenizer") pre_tokenizer = std::move(value);
    if (key == "post_processor") post_processor = std::move(value);
    if (key == "decoder") decoder = std::move(value);
    return {};
  }));
  DH_TRY(reader.finish());
  if (!has_model) return invalid_file("'model' is missing: this is no tokenizer.json");
  DH_TRY(read_normalizer(normalizer, d));
  DH_TRY(read_pre_tokenizer(pre_tokenizer, d));
  DH_TRY(read_post_processor(post_processor, d));
  DH_TRY(read_decoder(decoder, d));
  const JsonValue model_value(std::move(settings));
  std::string type = Component(model_value, "model").type();
  // Old files leave the type out; only BPE has merges.
  if (type.empty() && model_value.find("type") == nullptr) {
    type = std::find(seen_in_model.begin(), seen_in_model.end(), "merges") != seen_in_model.end()
               ? "BPE"
               : "WordPiece";
  }
  const Component model(model_value, cat("model ", printable(type)));
  if (type != "WordPiece" && type != "BPE") return Component(model_value, "model").unknown_type();
  if (!has_vocab) return invalid_file("model: 'vocab' is missing or no object");
  if (type == "WordPiece") {
    DH_TRY(finish_word_piece(model, d));
  } else {
    DH_TRY(finish_byte_pairs(model, d));
  }
  return d;
}

}  // namespace downhaul::text

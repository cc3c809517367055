#include <charconv>
#include <cstdio>

#include "base/file.h"
#include "base/strings.h"
#include "cli/verbs.h"
#include "formats/json/json.h"
#include "text/tokenizer.h"

namespace downhaul {
namespace {

using text::Encoding;
using text::Tokenizer;

constexpr uint64_t kMaxTextFile = uint64_t{1} << 30;
constexpr int64_t kMaxLength = 1 << 20;

class Tokenize final : public Verb {
 public:
  std::string_view name() const override { return "tokenize"; }
  std::string_view summary() const override { return "Show the tokens of texts, or text of ids"; }
  std::string_view details() const override {
    return "Offsets count code points; --json has bytes too. Bytes of a text that are not UTF-8\n"
           "are read as U+FFFD, with a warning.\n"
           "Examples:\n"
           "  downhaul tokenize --tokenizer samples/distilbert \"Paris is the [MASK] of France.\"\n"
           "  downhaul tokenize --tokenizer vocab.txt --file lines.txt --json > tokens.jsonl\n"
           "  downhaul tokenize --tokenizer tokenizer.json --decode 101 7592 102";
  }
  void declare(Options& o) override {
    o.positionals(&texts_, "TEXT", "texts, each tokenized alone; with --decode, ids", false);
    o.text(&tokenizer_, "--tokenizer", "PATH",
           "a folder with tokenizer files, or tokenizer.json, vocab.txt, vocab.json");
    o.text(&file_, "--file", "FILE", "one text a line; with --decode, the ids of one text a line");
    o.text(&json_lines_, "--json-lines", "FILE",
           "one text a line as a JSON string, or a pair as a list of two");
    o.text(&pair_, "--pair", "TEXT", "the second text of each pair");
    o.flag(&decode_, "--decode", "turn ids into text");
    o.flag(&keep_special_, "--keep-special", "with --decode: show special tokens too");
    o.flag(&no_special_, "--no-special", "add no special tokens");
    o.number(&max_length_, "--max-length", "N", "cut to this many tokens", 0, kMaxLength);
    o.choice(&truncate_, "--truncate", {"longest_first", "only_first", "only_second"},
             "which text of a pair is cut");
    o.number(&pad_to_, "--pad-to", "N", "pad to this many tokens", 1, kMaxLength);
    o.flag(&json_, "--json", "print one JSON object a text");
  }

  Result<int> run() override {
    if (tokenizer_.empty()) return invalid_argument("tokenize: give --tokenizer PATH");
    const int sources =
        (texts_.empty() ? 0 : 1) + (file_.empty() ? 0 : 1) + (json_lines_.empty() ? 0 : 1);
    if (sources != 1) {
      return invalid_argument("tokenize: give either TEXT, --file FILE or --json-lines FILE");
    }
    if (decode_ && !json_lines_.empty()) {
      return invalid_argument("tokenize: --decode takes its ids from --file or the command line");
    }
    DH_ASSIGN(const Tokenizer tokenizer, Tokenizer::load(tokenizer_));
    if (decode_) return decode(tokenizer);
    if (max_length_ >= 0) {
      const auto strategy = truncate_ == "only_first"    ? text::TruncationStrategy::kOnlyFirst
                            : truncate_ == "only_second" ? text::TruncationStrategy::kOnlySecond
                                                         : text::TruncationStrategy::kLongestFirst;
      options_.truncation = tokenizer.truncation_to(static_cast<uint32_t>(max_length_), strategy);
    }
    if (pad_to_ > 0) options_.padding = tokenizer.padding_to(static_cast<uint32_t>(pad_to_));
    options_.add_special_tokens = !no_special_;
    return encode(tokenizer);
  }

 private:
  Result<int> encode(const Tokenizer& tokenizer) {
    const std::string* pair = pair_.empty() ? nullptr : &pair_;
    if (!json_lines_.empty()) {
      DH_ASSIGN(const std::string lines, read_text_file(json_lines_, kMaxTextFile));
      size_t number = 0;
      for (const std::string_view line : lines_of(lines)) {
        ++number;
        const std::string place = cat("'", printable(json_lines_), "', line ", number);
        auto value = JsonValue::parse(line);
        if (!value.ok()) return std::move(value).status().with_context(place);
        const auto& parts = value->elements();
        const bool two = parts.size() == 2 && parts[0].is_string() && parts[1].is_string();
        if (!value->is_string() && !two) {
          return invalid_file(cat(place, ": expected a string or a list of two"));
        }
        DH_TRY(encode_one(tokenizer, two ? *parts[0].as_string() : *value->as_string(),
                          two ? parts[1].as_string() : pair, place));
      }
      return finish();
    }
    if (!file_.empty()) {
      DH_ASSIGN(const std::string lines, read_text_file(file_, kMaxTextFile));
      size_t number = 0;
      for (const std::string_view line : lines_of(lines)) {
        DH_TRY(encode_one(tokenizer, line, pair, cat("'", printable(file_), "', line ", ++number)));
      }
      return finish();
    }
    for (const std::string& given : texts_) DH_TRY(encode_one(tokenizer, given, pair, "TEXT"));
    return finish();
  }

  static std::vector<std::string_view> lines_of(std::string_view lines) {
    std::vector<std::string_view> out = split(lines, '\n');
    if (!out.empty() && out.back().empty()) out.pop_back();
    return out;
  }

  std::string valid(std::string_view given) {
    size_t count = 0;
    std::string out = text::replace_invalid_utf8(given, &count);
    replaced_ += count;
    return out;
  }

  Status encode_one(const Tokenizer& tokenizer, std::string_view given, const std::string* pair,
                    const std::string& place) {
    const std::string first = valid(given);
    const std::string second = pair != nullptr ? valid(*pair) : std::string();
    const std::string_view second_view = second;
    auto status = tokenizer.encode(first, pair != nullptr ? &second_view : nullptr, options_,
                                   workspace_, encoding_);
    if (!status.ok()) return std::move(status).with_context(place);
    if (json_) {
      print_json(tokenizer, first, pair != nullptr ? &second : nullptr);
    } else {
      print_table(tokenizer, first, second);
    }
    return {};
  }

  Result<int> finish() const {
    if (replaced_ > 0) {
      std::fprintf(stderr, "downhaul: warning: %s\n",
                   cat(replaced_, " places that are not UTF-8 were read as U+FFFD").c_str());
    }
    if (std::ferror(stdout) != 0) return io_error("cannot write the output");
    return kExitDone;
  }

  void print_json(const Tokenizer& tokenizer, const std::string& first, const std::string* second) {
    const auto spans = [](JsonWriter& json, std::string_view key,
                          const std::vector<text::Span>& list) {
      json.key(key).begin_array();
      for (const text::Span s : list) {
        json.begin_array().value(s.begin).value(s.end).end_array();
      }
      json.end_array();
    };
    JsonWriter json(JsonWriter::Style::kCompact);
    json.begin_object();
    json.field("text", first);
    if (second != nullptr) json.field("pair", *second);
    json.field("ids", encoding_.ids);
    json.key("tokens").begin_array();
    for (const uint32_t id : encoding_.ids) json.value(tokenizer.piece(id));
    json.end_array();
    spans(json, "offsets", encoding_.offsets);
    spans(json, "byte_offsets", encoding_.byte_offsets);
    json.field("type_ids", encoding_.type_ids);
    const auto small = [&](std::string_view key, const auto& list) {
      json.key(key).begin_array();
      for (const auto v : list) json.value(static_cast<int>(v));
      json.end_array();
    };
    small("attention_mask", encoding_.attention_mask);
    small("special_tokens_mask", encoding_.special_mask);
    small("sequence", encoding_.sequence);
    json.field("truncated", encoding_.truncated);
    json.end_object();
    std::printf("%s\n", json.take().c_str());
  }

  void print_table(const Tokenizer& tokenizer, const std::string& first,
                   const std::string& second) {
    std::printf("%s: %d tokens%s\n", printable(first).c_str(), static_cast<int>(encoding_.size()),
                encoding_.truncated ? ", cut" : "");
    std::printf("%8s  %-20s %11s  %s\n", "id", "piece", "offsets", "text");
    for (size_t i = 0; i < encoding_.size(); ++i) {
      const std::string_view from = encoding_.sequence[i] == 1 ? second : first;
      const text::Span bytes = encoding_.byte_offsets[i];
      const text::Span chars = encoding_.offsets[i];
      const std::string covered =
          encoding_.sequence[i] < 0
              ? std::string("(added)")
              : cat("'", printable(from.substr(bytes.begin, bytes.end - bytes.begin)), "'");
      std::printf("%8s  %-20s %11s  %s\n", cat(encoding_.ids[i]).c_str(),
                  printable(tokenizer.piece(encoding_.ids[i])).c_str(),
                  cat(chars.begin, "-", chars.end).c_str(), covered.c_str());
    }
  }

  Result<int> decode(const Tokenizer& tokenizer) {
    std::vector<uint32_t> ids;
    const auto add = [&](std::string_view word, const std::string& place) -> Status {
      uint32_t id = 0;
      const auto r = std::from_chars(word.data(), word.data() + word.size(), id);
      if (r.ec != std::errc() || r.ptr != word.data() + word.size() || id >= tokenizer.size()) {
        return invalid_argument(
            cat(place, ": '", printable(word), "' is no id from 0 to ", tokenizer.size() - 1));
      }
      ids.push_back(id);
      return {};
    };
    const auto print = [&] {
      const std::string out = tokenizer.decode(ids, !keep_special_);
      if (json_) {
        JsonWriter json(JsonWriter::Style::kCompact);
        json.begin_object().field("ids", ids).field("text", out).end_object();
        std::printf("%s\n", json.take().c_str());
      } else {
        std::printf("%s\n", out.c_str());
      }
      ids.clear();
    };
    if (file_.empty()) {
      for (const std::string& word : texts_) DH_TRY(add(word, "tokenize --decode"));
      print();
      return finish();
    }
    DH_ASSIGN(const std::string lines, read_text_file(file_, kMaxTextFile));
    size_t number = 0;
    for (const std::string_view line : lines_of(lines)) {
      const std::string place = cat("'", printable(file_), "', line ", ++number);
      for (const std::string_view word : split(line, ' ')) {
        if (!word.empty()) DH_TRY(add(word, place));
      }
      print();
    }
    return finish();
  }

  std::vector<std::string> texts_;
  std::string tokenizer_, file_, json_lines_, pair_;
  std::string truncate_ = "longest_first";
  int64_t max_length_ = -1;
  int64_t pad_to_ = 0;
  bool decode_ = false, keep_special_ = false, no_special_ = false, json_ = false;
  text::EncodeOptions options_;
  Tokenizer::Workspace workspace_;
  Encoding encoding_;
  size_t replaced_ = 0;
};

}  // namespace

std::unique_ptr<Verb> make_tokenize() { return std::make_unique<Tokenize>(); }

}  // namespace downhaul

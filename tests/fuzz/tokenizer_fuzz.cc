#include "fuzz_target.h"
#include "text/tokenizer.h"

/// Input: tokenizer files and a text that they are to take, with a byte in front that says which.
namespace downhaul {
namespace {

constexpr char kSeparator = '\x1E';

std::vector<uint8_t> seed(uint8_t kind, std::initializer_list<std::string_view> parts) {
  std::vector<uint8_t> bytes = {kind};
  for (const std::string_view part : parts) {
    bytes.insert(bytes.end(), part.begin(), part.end());
    bytes.push_back(kSeparator);
  }
  return bytes;
}

constexpr std::string_view kWordPieces = R"({"version":"1.0",
"truncation":{"max_length":9,"strategy":"LongestFirst","stride":0,"direction":"Right"},
"padding":{"strategy":{"Fixed":12},"direction":"Left","pad_to_multiple_of":8,"pad_id":0,"pad_type_id":0,"pad_token":"[PAD]"},
"added_tokens":[{"id":1,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
{"id":8,"content":"New","single_word":true,"lstrip":true,"rstrip":true,"normalized":true,"special":false}],
"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
"pre_tokenizer":{"type":"BertPreTokenizer"},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[C]","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"[C]":{"id":"[C]","ids":[2],"tokens":["[C]"]}}},
"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
"vocab":{"[PAD]":0,"[UNK]":1,"[C]":2,"a":3,"##b":4,"##":5,"e":6,".":7}}})";

constexpr std::string_view kBytePairs = R"({"added_tokens":[],"normalizer":null,
"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel","trim_offsets":true,"add_prefix_space":false},
{"type":"RobertaProcessing","sep":["a",0],"cls":["b",1],"trim_offsets":false,"add_prefix_space":true}]},
"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","dropout":null,"unk_token":"b","fuse_unk":true,"ignore_merges":true,
"vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"Ġab":4},"merges":[["a","b"],"Ġ ab"]}})";

constexpr std::string_view kText = "ab \xC3\x89 [UNK]new e.\xE4\xB8\xAD\xCC\x81";

}  // namespace

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  return {seed('j', {kWordPieces, kText}), seed('j', {kBytePairs, kText}),
          seed('w', {"[UNK]\n[CLS]\n[SEP]\na\n##b\n", R"({"do_lower_case":false,"pad_token":"a"})",
                     kText}),
          seed('p', {R"({"a":0,"b":1,"ab":2,"<s>":3,"</s>":4})", "#version: 0.2\na b\n",
                     R"({"model_max_length":1e30,"mask_token":{"content":"<s>"}})", kText})};
}

}  // namespace downhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downhaul;
  using text::Tokenizer;
  if (size == 0) return 0;
  std::vector<std::string> parts(1);
  for (size_t i = 1; i < size; ++i) {
    if (static_cast<char>(data[i]) == kSeparator) {
      parts.emplace_back();
    } else {
      parts.back().push_back(static_cast<char>(data[i]));
    }
  }
  parts.resize(5);
  const size_t used = data[0] == 'p' ? 3 : data[0] == 'w' ? 2 : 1;
  const auto tokenizer = data[0] == 'p'   ? Tokenizer::from_byte_pairs(parts[0], parts[1], parts[2])
                         : data[0] == 'w' ? Tokenizer::from_word_pieces(parts[0], parts[1])
                                          : Tokenizer::from_json(parts[0]);
  if (!tokenizer.ok()) {
    check_message(tokenizer.status());
    return 0;
  }
  const std::string given = text::replace_invalid_utf8(parts[used]);
  for (const bool pair : {false, true}) {
    const auto encoding = pair ? tokenizer->encode(given, given) : tokenizer->encode(given);
    if (!encoding.ok()) {
      check_message(encoding.status());
      continue;
    }
    for (size_t i = 0; i < encoding->size(); ++i) {
      const text::Span bytes = encoding->byte_offsets[i];
      DH_CHECK(bytes.begin <= bytes.end && bytes.end <= given.size());
      DH_CHECK(encoding->ids[i] < tokenizer->size() || encoding->special_mask[i] == 1);
    }
    (void)tokenizer->decode(encoding->ids, pair);
  }
  return 0;
}

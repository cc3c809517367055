#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/strings.h"
#include "text/unicode.h"

namespace downhaul::text {
namespace {

using Ids = std::vector<uint32_t>;

// A tokenizer.json from its parts.
std::string word_piece_json(std::string_view vocab, std::string_view more = "") {
  return cat(R"({"version":"1.0","normalizer":{"type":"BertNormalizer","strip_accents":null},)",
             R"("pre_tokenizer":{"type":"BertPreTokenizer"},)",
             R"("decoder":{"type":"WordPiece","prefix":"##","cleanup":true},)", more,
             R"("model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{)", vocab, "}}}");
}

// The 256 byte characters as ids 0 … 255 in the order of the bytes, then what is asked for.
std::string byte_pair_json(std::string_view vocab, std::string_view merges,
                           std::string_view settings = "", std::string_view more = "") {
  std::string bytes;
  for (uint32_t b = 0, next = 0x100; b < 256; ++b) {
    const bool plain = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const uint32_t c = plain ? b : next++;
    std::string text;
    if (c == '"' || c == '\\') text.push_back('\\');
    if (c < 0x80) {
      text.push_back(static_cast<char>(c));
    } else {
      text.push_back(static_cast<char>(0xC0 | c >> 6));
      text.push_back(static_cast<char>(0x80 | (c & 0x3F)));
    }
    bytes += cat(b > 0 ? "," : "", "\"", text, "\":", b);
  }
  return cat(R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},)",
             R"("decoder":{"type":"ByteLevel"},)", more, R"("model":{"type":"BPE",)", settings,
             R"("vocab":{)", bytes, vocab, R"(},"merges":[)", merges, "]}}");
}

Tokenizer made(Result<Tokenizer> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return *std::move(result);
}

Ids ids(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options = {}) {
  auto encoding = tokenizer.encode(text, options);
  EXPECT_TRUE(encoding.ok()) << encoding.status().message();
  return encoding.ok() ? encoding->ids : Ids();
}

std::string refusal(Result<Tokenizer> result) {
  if (result.ok()) return "accepted";
  EXPECT_EQ(result.status().message().find('\n'), std::string::npos);
  return result.status().message();
}

constexpr std::string_view kSmall =
    R"("[UNK]":0,"un":1,"##want":2,"##ed":3,"runn":4,"##ing":5,"[CLS]":6,"[SEP]":7,"[PAD]":8)";
constexpr std::string_view kTemplate =
    R"("post_processor":{"type":"BertProcessing","cls":["[CLS]",6],"sep":["[SEP]",7]},)";

TEST(WordPiece, AWordWithAnUnknownRestIsUnknownAsAWhole) {
  const Tokenizer t = made(Tokenizer::from_json(word_piece_json(kSmall)));
  EXPECT_EQ(ids(t, "unwantedX running"), (Ids{0, 4, 5}));
  EXPECT_EQ(ids(t, "unwanted"), (Ids{1, 2, 3}));
  EXPECT_EQ(ids(t, ""), Ids());
}

TEST(WordPiece, AccentsLeaveTheirLetters) {
  const Tokenizer t = made(Tokenizer::from_word_pieces("[UNK]\nkanto\nka\n"));
  EXPECT_EQ(ids(t, "Kant\xC5\x8D"), Ids{1});
  const auto e = t.encode("x Kant\xC5\x8D");
  EXPECT_EQ(e->offsets[1], (Span{2, 7}));
  EXPECT_EQ(e->byte_offsets[1], (Span{2, 8}));
}

TEST(WordPiece, CleansTextAndSeparatesIdeographsAndPunctuation) {
  const Tokenizer t = made(Tokenizer::from_word_pieces("[UNK]\na\nb\n\xE4\xB8\xAD\n!\nab\n"));
  EXPECT_EQ(ids(t,
                "a\xE4\xB8\xAD"
                "b!"),
            (Ids{1, 3, 2, 4}));
  EXPECT_EQ(ids(t,
                "a\x01"
                "b"),
            Ids{5});  // control characters vanish
  EXPECT_EQ(ids(t,
                "a\xE2\x80\x8B"
                "b"),
            Ids{5});  // so does U+200B
  EXPECT_EQ(ids(t,
                "a\xC2\xA0"
                "b\ta"),
            (Ids{1, 2, 1}));
  EXPECT_EQ(ids(t, std::string_view("a\0b", 3)), Ids{5});
}

TEST(WordPiece, StripsAccentsOnlyWithLowerCaseUnlessTold) {
  const auto cased = [](std::string_view config) {
    return made(Tokenizer::from_word_pieces("[UNK]\n\xC3\x89\nE\ne\n", config));
  };
  EXPECT_EQ(ids(cased(R"({"do_lower_case":false})"), "\xC3\x89"), Ids{1});
  EXPECT_EQ(ids(cased(R"({"do_lower_case":false,"strip_accents":true})"), "\xC3\x89"), Ids{2});
  EXPECT_EQ(ids(cased(R"({"do_lower_case":true,"strip_accents":null})"), "\xC3\x89"), Ids{3});
}

TEST(WordPiece, LongWordsAreUnknown) {
  const Tokenizer t = made(Tokenizer::from_word_pieces("[UNK]\na\n##a\n"));
  EXPECT_EQ(ids(t, std::string(100, 'a')).size(), 100u);
  EXPECT_EQ(ids(t, std::string(101, 'a')), Ids{0});
  EXPECT_EQ(ids(t, std::string(1 << 20, 'a')), Ids{0});
}

TEST(WordPiece, DecodesWithCleanUp) {
  const Tokenizer t =
      made(Tokenizer::from_word_pieces("[UNK]\ndo\n##g\nn\n'\nt\n.\n[SEP]\n[CLS]\n"));
  EXPECT_EQ(t.decode(Ids{8, 1, 2, 6, 7}), "dog.");
  EXPECT_EQ(t.decode(Ids{8, 1, 2, 6, 7}, false), "[CLS] dog. [SEP]");
  EXPECT_EQ(t.decode(Ids{1, 99}), "do");
}

TEST(BytePairs, SplitsLikeGpt2) {
  const Tokenizer t = made(Tokenizer::from_json(
      byte_pair_json(R"(,"Hello":256,"He":257,"ll":258,"llo":259," World":260)",
                     R"(["H","e"],["l","l"],["ll","o"],["He","llo"])")));
  // Two spaces: the first stands alone, the second belongs to the word.
  const auto e = t.encode("Hello  World");
  ASSERT_EQ(e->ids.size(), 8u);
  EXPECT_EQ(e->ids[0], 256u);
  EXPECT_EQ(e->ids[1], 0x20u);
  EXPECT_EQ(e->ids[2], 0x20u);
  EXPECT_EQ(e->offsets[2], (Span{6, 7}));
  EXPECT_EQ(t.decode(e->ids), "Hello  World");
}

TEST(BytePairs, MergesTheLowestRankFirst) {
  const Tokenizer t = made(Tokenizer::from_json(
      byte_pair_json(R"(,"ab":256,"bc":257,"abc":258)", R"(["b","c"],["a","b"],["a","bc"])")));
  EXPECT_EQ(ids(t, "abc"), Ids{258});
  EXPECT_EQ(ids(t, "ab"), Ids{256});
  EXPECT_EQ(ids(t, "abab"), (Ids{256, 256}));
}

TEST(BytePairs, TokensInsideACharacterCoverIt) {
  const Tokenizer t = made(Tokenizer::from_json(byte_pair_json("", "")));
  const auto e = t.encode("\xE4\xB8\xAD");
  ASSERT_EQ(e->size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(e->offsets[i], (Span{0, 1}));
    EXPECT_EQ(e->byte_offsets[i], (Span{0, 3}));
  }
  EXPECT_EQ(t.decode(Ids{0xE4, 0xB8}), "\xEF\xBF\xBD");
}

TEST(BytePairs, OneLongWordTakesNoSquareOfTime) {
  const Tokenizer t = made(
      Tokenizer::from_json(byte_pair_json(R"(,"aa":256,"aaaa":257)", R"(["a","a"],["aa","aa"])")));
  EXPECT_EQ(ids(t, std::string(1 << 20, 'a')).size(), size_t{1} << 18);
}

TEST(BytePairs, RobertaKeepsTheSpaceOfItsMaskOutOfTheWord) {
  const std::string special =
      R"("added_tokens":[{"id":256,"content":"<s>","special":true,"normalized":false},)"
      R"({"id":257,"content":"</s>","special":true,"normalized":false},)"
      R"({"id":258,"content":"<mask>","special":true,"normalized":false,"lstrip":true}],)"
      R"("post_processor":{"type":"RobertaProcessing","sep":["</s>",257],"cls":["<s>",256],)"
      R"("trim_offsets":true,"add_prefix_space":false},)";
  const Tokenizer t = made(Tokenizer::from_json(byte_pair_json("", "", "", special)));
  const auto e = t.encode("a <mask>b", "c");
  EXPECT_EQ(e->ids, (Ids{256, 'a', 258, 'b', 257, 257, 'c', 257}));
  EXPECT_EQ(e->offsets[2], (Span{2, 8}));  // trimmed
  EXPECT_EQ(e->type_ids, Ids(8, 0));
  EXPECT_EQ(e->sequence[6], 1);
}

TEST(AddedTokens, AreFoundBeforeNormalization) {
  const Tokenizer t =
      made(Tokenizer::from_word_pieces("[UNK]\n[MASK]\n[\nmask\n]\n[CLS]\n[SEP]\na\n"));
  EXPECT_EQ(ids(t, "a[MASK]a"), (Ids{5, 7, 1, 7, 6}));
  EXPECT_EQ(ids(t, "[mask]"), (Ids{5, 2, 3, 4, 6}));
  EXPECT_EQ(ids(t, "[MASK"), (Ids{5, 2, 3, 6}));
  EXPECT_EQ(t.mask_id(), 1u);
}

TEST(PostProcessing, PairsHaveTwoTypes) {
  const Tokenizer t = made(Tokenizer::from_json(word_piece_json(kSmall, kTemplate)));
  const auto e = t.encode("running", "un");
  EXPECT_EQ(e->ids, (Ids{6, 4, 5, 7, 1, 7}));
  EXPECT_EQ(e->type_ids, (Ids{0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(e->special_mask, (std::vector<uint8_t>{1, 0, 0, 1, 0, 1}));
  EXPECT_EQ(t.num_added(true), 3u);
}

TEST(PostProcessing, CutsAndPads) {
  const Tokenizer t = made(Tokenizer::from_json(word_piece_json(kSmall, kTemplate)));
  EncodeOptions options;
  options.truncation = t.truncation_to(4);
  options.padding = t.padding_to(6);
  const auto e = t.encode("un un un", options);
  EXPECT_EQ(e->ids, (Ids{6, 1, 1, 7, 8, 8}));
  EXPECT_EQ(e->attention_mask, (std::vector<uint8_t>{1, 1, 1, 1, 0, 0}));
  EXPECT_TRUE(e->truncated);
  options.padding->side = Side::kLeft;
  options.truncation->side = Side::kLeft;
  EXPECT_EQ(ids(t, "running un", options), (Ids{8, 8, 6, 5, 1, 7}));
  options.truncation = t.truncation_to(1);
  EXPECT_NE(t.encode("un", options).status().message().find("the 2 special tokens alone"),
            std::string::npos);
  options.truncation = t.truncation_to(5, TruncationStrategy::kOnlySecond);
  EXPECT_FALSE(t.encode("un", options).ok() && t.encode("un un un un", options).ok());
  EXPECT_FALSE(t.encode("un un", "un", options).ok());
}

TEST(PostProcessing, LongestFirstLeavesTheShorterTextWhole) {
  const Tokenizer t = made(Tokenizer::from_json(word_piece_json(kSmall, kTemplate)));
  EncodeOptions options;
  options.truncation = t.truncation_to(8);
  EXPECT_EQ(t.encode("un", "running running running", options)->ids, (Ids{6, 1, 7, 4, 5, 4, 5, 7}));
  EXPECT_EQ(t.encode("un un un un", "running running", options)->ids,
            (Ids{6, 1, 1, 7, 4, 5, 4, 7}));
}

TEST(TokenizerFiles, UnknownComponentsAreNamed) {
  const auto with = [](std::string_view key, std::string_view value) {
    return refusal(Tokenizer::from_json(
        cat(R"({")", key, R"(":)", value,
            R"(,"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0}}})")));
  };
  EXPECT_NE(with("pre_tokenizer", R"({"type":"Foo"})").find("'Foo'"), std::string::npos);
  EXPECT_NE(with("normalizer", R"({"type":"NFKC"})").find("'NFKC'"), std::string::npos);
  EXPECT_NE(with("decoder", R"({"type":"Fuse"})").find("'Fuse'"), std::string::npos);
  EXPECT_NE(with("post_processor", R"({"type":"Bar"})").find("'Bar'"), std::string::npos);
  EXPECT_NE(with("truncation", R"({"max_length":4,"strategy":"Best"})").find("'Best'"),
            std::string::npos);
  EXPECT_NE(refusal(Tokenizer::from_json(R"({"model":{"type":"Unigram","vocab":[["a",0.5]]}})"))
                .find("'Unigram'"),
            std::string::npos);
  EXPECT_NE(
      refusal(Tokenizer::from_json(byte_pair_json("", "", R"("dropout":0.1,)"))).find("'dropout'"),
      std::string::npos);
  EXPECT_NE(refusal(Tokenizer::from_json(word_piece_json(kSmall, R"("decoder":null,)")))
                .find("duplicate key 'decoder'"),
            std::string::npos);
}

TEST(TokenizerFiles, BrokenVocabulariesAreRefused) {
  const auto of = [](std::string_view vocab) {
    return refusal(Tokenizer::from_json(word_piece_json(vocab)));
  };
  EXPECT_NE(of(R"("a":0)").find("lacks the unknown token '[UNK]'"), std::string::npos);
  EXPECT_NE(of(R"("[UNK]":0,"a":1,"b":1)").find("same id 1"), std::string::npos);
  EXPECT_NE(of(R"("[UNK]":0,"a":2)").find("some id has no token"), std::string::npos);
  EXPECT_NE(of(R"("[UNK]":0,"a":1,"a":2)").find("twice"), std::string::npos);
  EXPECT_NE(of(R"("[UNK]":0,"a":-1)").find("token id -1"), std::string::npos);
  EXPECT_NE(of(R"("[UNK]":0,"a":99999999999)").find("token id"), std::string::npos);
  EXPECT_NE(of(R"("[UNK]":0,"\ud800":1)").find("surrogate"), std::string::npos);
  EXPECT_NE(of("").find("empty"), std::string::npos);
  EXPECT_NE(refusal(Tokenizer::from_word_pieces("[UNK]\na\na\n")).find("twice"), std::string::npos);
  EXPECT_NE(refusal(Tokenizer::from_word_pieces("[UNK]\n[CLS]\n")).find("lacks '[SEP]'"),
            std::string::npos);
  EXPECT_NE(refusal(Tokenizer::from_json(byte_pair_json("", R"(["a","b"])"))).find("lacks 'ab'"),
            std::string::npos);
  EXPECT_NE(refusal(Tokenizer::from_json(byte_pair_json("", R"(["a"])"))).find("two parts"),
            std::string::npos);
  EXPECT_NE(refusal(Tokenizer::from_byte_pairs(R"({"a":0,"b":1})", "#version: 0.2\na b c\n"))
                .find("line 2"),
            std::string::npos);
}

TEST(TokenizerFiles, RepeatedPiecesOfInvalidTextAreRefused) {
  const Tokenizer t = made(Tokenizer::from_json(word_piece_json(kSmall)));
  EXPECT_NE(t.encode("a\xFF").status().message().find("not UTF-8"), std::string::npos);
  EXPECT_EQ(replace_invalid_utf8("a\xFF\xE4\xB8"
                                 "b\xF0\x9F\x98\x80\xED\xA0\x80"),
            "a\xEF\xBF\xBD\xEF\xBF\xBD"
            "b\xF0\x9F\x98\x80\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Unicode, KeepsTheVintagesOfTheReference) {
  EXPECT_NE(char_flags(0x166D) & kPunctuation, 0);  // a symbol since Unicode 12
  EXPECT_EQ(char_flags(0x2E52) & kPunctuation, 0);  // Unicode 14
  EXPECT_EQ(char_flags(0x1DF6) & kNonspacing, 0);   // Unicode 10
  EXPECT_EQ(combining_class(0x1DF6), 0);
  EXPECT_EQ(combining_class(0x1DFB), 230);     // Unicode 9
  EXPECT_NE(char_flags(0xA7DC) & kLetter, 0);  // Unicode 16
  uint32_t out[kMaxDecomposition];
  EXPECT_EQ(lower_case(0x130, out), 2);
  EXPECT_EQ(lower_case(0xA7DC, out), 1);
  EXPECT_EQ(out[0], 0x19Bu);
  EXPECT_EQ(decompose(0xAC01, out), 3);
  EXPECT_EQ(decompose(0xFB01, out), 1);
}

TEST(Workspace, RemembersWordsWithoutMixingThemUp) {
  // More different words than the cache holds.
  std::string vocab = "[UNK]\n";
  for (int i = 0; i < 10; ++i) vocab += cat(i, "\n##", i, "\n");
  const Tokenizer t = made(Tokenizer::from_word_pieces(vocab));
  Tokenizer::Workspace workspace;
  Encoding e;
  for (int round = 0; round < 2; ++round) {
    for (uint32_t n = 0; n < 50000; n += 1) {
      const std::string word = cat(n);
      ASSERT_TRUE(t.encode(word, nullptr, {}, workspace, e).ok());
      ASSERT_EQ(e.size(), word.size());
      for (size_t i = 0; i < word.size(); ++i) {
        ASSERT_EQ(e.ids[i], 1u + 2u * static_cast<uint32_t>(word[i] - '0') + (i > 0 ? 1 : 0));
      }
    }
  }
}

}  // namespace
}  // namespace downhaul::text

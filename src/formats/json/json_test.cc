#include "formats/json/json.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "formats/json/utf8.h"
#include "formats/test_files.h"

namespace downhaul {
namespace {

template <typename T>
Result<T> read_as(std::string_view text) {
  JsonReader reader(text);
  T out{};
  DH_TRY(reader.read(out));
  DH_TRY(reader.finish());
  return out;
}

TEST(JsonReader, KeepsAll64BitsOfAnInteger) {
  EXPECT_EQ(*read_as<int64_t>("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(*read_as<int64_t>("-9223372036854775808"), INT64_MIN);
  EXPECT_EQ(*read_as<uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(*read_as<int64_t>("9007199254740993"), 9007199254740993);
  EXPECT_TRUE(fails(read_as<int64_t>("9223372036854775808"), "out of range"));
  EXPECT_TRUE(fails(read_as<uint8_t>("256"), "out of range, expected 0 to 255"));
  EXPECT_TRUE(fails(read_as<uint64_t>("-1"), "out of range"));
  EXPECT_TRUE(fails(read_as<int64_t>("1.0"), "expected an integer"));
}

TEST(JsonReader, AcceptsBothSpellingsOfNonFiniteNumbers) {
  for (const char* text : {"Infinity", "\"Infinity\""}) {
    EXPECT_EQ(*read_as<double>(text), std::numeric_limits<double>::infinity());
  }
  for (const char* text : {"-Infinity", "\"-Infinity\""}) {
    EXPECT_EQ(*read_as<double>(text), -std::numeric_limits<double>::infinity());
  }
  for (const char* text : {"NaN", "\"NaN\""}) EXPECT_TRUE(std::isnan(*read_as<double>(text)));
  EXPECT_TRUE(fails(read_as<double>("\"nan\""), "expected a number"));
}

TEST(JsonReader, ReadsDoublesExactly) {
  EXPECT_EQ(*read_as<double>("-3.4028234663852886e+38"), -3.4028234663852886e+38);
  EXPECT_EQ(*read_as<double>("4.9e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(*read_as<double>("1e-5000"), 0.0);
  EXPECT_TRUE(std::signbit(*read_as<double>("-0.0")));
  EXPECT_EQ(*read_as<double>("7"), 7.0);
  EXPECT_TRUE(fails(read_as<double>("1e309"), "too large"));
}

TEST(JsonReader, DecodesEscapesAndRefusesLoneSurrogates) {
  EXPECT_EQ(*read_as<std::string>(R"("a\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00")"),
            "a\"\\/\b\f\n\r\tA\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_TRUE(fails(read_as<std::string>(R"("\ud83d")"), "lone surrogate"));
  EXPECT_TRUE(fails(read_as<std::string>(R"("\ude00")"), "lone surrogate"));
  EXPECT_TRUE(fails(read_as<std::string>("\"\xff\""), "not valid UTF-8"));
  EXPECT_TRUE(fails(read_as<std::string>("\"a\nb\""), "control character"));
  EXPECT_TRUE(fails(read_as<std::string>("\"abcdefghijk"), "the text ends"));
}

TEST(JsonReader, NestingBeyondTheLimitIsAnErrorNotACrash) {
  for (const char* open : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += open;
    JsonReader reader(text);
    EXPECT_TRUE(fails(reader.skip(), "nested deeper than 256"));
    EXPECT_TRUE(fails(JsonValue::parse(text), "nested deeper than 256"));
  }
}

TEST(JsonReader, SkipPassesOverAnythingAndStopsBehindIt) {
  JsonReader reader(R"([{"a":[1,{"b":"\"]}"}],"c":[]},NaN,-Infinity,{} ,"x"])");
  std::string last;
  ASSERT_TRUE(reader
                  .array([&]() -> Status {
                    return reader.kind() == JsonReader::Kind::kString ? reader.read(last)
                                                                      : reader.skip();
                  })
                  .ok());
  EXPECT_EQ(last, "x");
  EXPECT_TRUE(reader.finish().ok());
}

TEST(JsonReader, MalformedTextsNameTheByte) {
  for (const char* text : {"", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":1,}", "{a:1}", "[", "{", "tru",
                           "01", "1.", "1e", "-", "[1}", "nul"}) {
    JsonReader reader(text);
    Status status = reader.skip();
    if (status.ok()) status = reader.finish();
    EXPECT_TRUE(fails(status, "JSON byte ")) << text;
  }
}

TEST(JsonValue, RefusesDuplicateKeysByName) {
  EXPECT_TRUE(fails(JsonValue::parse(R"({"a":1,"b":2,"a":3})"), "duplicate key 'a'"));
  EXPECT_TRUE(fails(JsonValue::parse("1 2"), "expected the end of the text"));
}

TEST(JsonValue, KeepsOrderAndKinds) {
  const auto value = JsonValue::parse(R"({"z":1,"a":[true,null,2.5,"s",18446744073709551615]})");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(value->members()[0].first, "z");
  EXPECT_EQ(value->find("z")->as_int(), 1);
  const JsonValue::Array& list = value->find("a")->elements();
  EXPECT_EQ(list[0].as_bool(), true);
  EXPECT_TRUE(list[1].is_null());
  EXPECT_EQ(list[2].as_double(), 2.5);
  EXPECT_EQ(list[2].as_int(), std::nullopt);
  EXPECT_EQ(*list[3].as_string(), "s");
  EXPECT_EQ(list[4].as_uint(), UINT64_MAX);
  EXPECT_EQ(value->find("none"), nullptr);
}

TEST(JsonWriter, WritesPrettyText) {
  JsonWriter out;
  out.begin_object().field("name", "a\"b").field("shape", std::vector<int64_t>{1, 3});
  out.key("nodes").begin_array();
  out.begin_object().field("x", 1.0).field("y", std::optional<int64_t>()).end_object();
  out.begin_object().end_object();
  out.end_array().field("f", 0.1f).field("inf", -std::numeric_limits<double>::infinity());
  out.end_object();
  EXPECT_EQ(out.take(), R"({
  "name": "a\"b",
  "shape": [1, 3],
  "nodes": [
    {
      "x": 1.0,
      "y": null
    },
    {}
  ],
  "f": 0.1,
  "inf": "-Infinity"
}
)");
}

TEST(JsonWriter, BreaksLongArrays) {
  JsonWriter out;
  out.value(std::vector<std::string>(30, "word"));
  const std::string text = out.take();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 32);
}

TEST(JsonWriter, InvalidBytesBecomeReplacementCharacters) {
  JsonWriter out(JsonWriter::Style::kCompact);
  out.value("a\xff\x01");
  EXPECT_EQ(out.take(), R"("a\ufffd\u0001")");
}

JsonValue random_value(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0:
      return {};
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int64_t>(random());
    case 3: {
      const uint64_t bits = random();
      double d;
      std::memcpy(&d, &bits, sizeof(d));
      return std::isfinite(d) ? d : 0.5;
    }
    case 4:
    case 5: {
      std::string text;
      for (uint64_t n = random() % 40; n > 0; --n) {
        const auto c = static_cast<uint32_t>(random() % 0x11000);
        append_utf8(text, c >= 0xD800 && c < 0xE000 ? c % 128 : c);
      }
      return text;
    }
    case 6: {
      JsonValue::Array list;
      for (uint64_t n = random() % 6; n > 0; --n) list.push_back(random_value(random, depth - 1));
      return list;
    }
    default: {
      JsonValue::Object object;
      for (uint64_t n = random() % 6; n > 0; --n) {
        object.emplace_back(cat("key\n", n), random_value(random, depth - 1));
      }
      return object;
    }
  }
}

TEST(Json, WhatIsWrittenReadsBackTheSame) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {
    const JsonValue value = random_value(random, 5);
    for (const auto style : {JsonWriter::Style::kCompact, JsonWriter::Style::kPretty}) {
      const std::string text = to_json(value, style);
      const auto again = JsonValue::parse(text);
      ASSERT_TRUE(again.ok()) << again.status().message() << "\n" << text;
      ASSERT_TRUE(*again == value) << text;
    }
  }
}

TEST(Utf8, AcceptsExactlyTheScalarValues) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_TRUE(is_valid_utf8(text)) << c;
    if (text.size() == 1) continue;
    ASSERT_FALSE(is_valid_utf8(text.substr(0, text.size() - 1))) << c;
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
  }
}

}  // namespace
}  // namespace downhaul

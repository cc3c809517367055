#include "formats/safetensors/safetensors.h"

#include <cstring>
#include <random>

#include "formats/test_files.h"

namespace downhaul::safetensors {
namespace {

/// Length, header and data as bytes.
std::string raw(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out.append(header).append(data);
}

std::string with_length(uint64_t length, std::string_view rest) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out.append(rest);
}

Result<File> read_text(std::string_view content) {
  TestFolder folder;
  return read(folder.write("m.safetensors", content));
}

std::string one(std::string_view dtype, std::string_view shape, uint64_t begin, uint64_t end) {
  return cat("{\"a\":{\"dtype\":\"", dtype, "\",\"shape\":[", shape, "],\"data_offsets\":[", begin,
             ",", end, "]}}");
}

std::string two(uint64_t b0, uint64_t e0, uint64_t b1, uint64_t e1) {
  return cat(R"({"a":{"dtype":"U8","shape":[)", e0 - b0, R"(],"data_offsets":[)", b0, ",", e0,
             R"(]},"b":{"dtype":"U8","shape":[)", e1 - b1, R"(],"data_offsets":[)", b1, ",", e1,
             "]}}");
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const auto file = read_text(raw(R"({"__metadata__":{"format":"pt"},)"
                                  R"("b":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},)"
                                  R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]},)"
                                  R"("e":{"dtype":"F32","shape":[0,3],"data_offsets":[8,8]}} )",
                                  "abcdefgh"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[0].name, "a");
  EXPECT_EQ(as_text(file->bytes(*file->find("a"))), "abcd");
  EXPECT_EQ(as_text(file->bytes(*file->find("b"))), "efgh");
  EXPECT_EQ(file->find("e")->shape, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ(file->find("none"), nullptr);
  EXPECT_EQ(file->metadata()[0].second, "pt");
}

TEST(Safetensors, RefusesImpossibleLengths) {
  EXPECT_TRUE(fails(read_text("1234567"), "file has 7 bytes"));
  EXPECT_TRUE(fails(read_text(with_length(0, "xx")), "header length is 0"));
  EXPECT_TRUE(fails(read_text(with_length(uint64_t{1} << 63, "{}")),
                    "header length is 9223372036854775808, at most 100000000 bytes (100 MB)"));
  EXPECT_TRUE(fails(read_text(with_length(50, "{}")), "header length is 50, the file has 2 bytes"));
}

TEST(Safetensors, RefusesHeadersThatAreNoObject) {
  EXPECT_TRUE(fails(read_text(raw("[1]", "")), "header starts with '['"));
  EXPECT_TRUE(fails(read_text(raw(" {}", "")), "header starts with ' '"));
  EXPECT_TRUE(fails(read_text(raw("{\"a\":", "")), "JSON byte"));
  EXPECT_TRUE(fails(read_text(raw("{\"\xff\":1}", "")), "not valid UTF-8"));
  EXPECT_TRUE(
      fails(read_text(raw(std::string("{}\0\0\0", 5), "")), "3 NUL bytes; pad with spaces"));
  EXPECT_TRUE(fails(read_text(raw("{}x", "")), "expected the end"));
  EXPECT_TRUE(read_text(raw("{}     ", "")).ok());
}

TEST(Safetensors, RefusesDuplicateKeysByName) {
  EXPECT_TRUE(fails(read_text(raw(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                  R"("x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                  "ab")),
                    "duplicate key 'x'"));
}

TEST(Safetensors, RefusesOffsetsThatDoNotCoverTheData) {
  EXPECT_TRUE(read_text(raw(two(0, 4, 4, 8), "12345678")).ok());
  EXPECT_TRUE(fails(read_text(raw(two(0, 5, 4, 8), "12345678")), "tensors 'a' and 'b' overlap"));
  EXPECT_TRUE(fails(read_text(raw(two(0, 4, 0, 4), "1234")), "tensors 'a' and 'b' overlap"));
  EXPECT_TRUE(fails(read_text(raw(two(0, 3, 4, 8), "12345678")),
                    "hole in the data: 'a' ends at 3, 'b' begins at 4"));
  EXPECT_TRUE(fails(read_text(raw(two(1, 4, 4, 8), "12345678")), "hole in the data: the header"));
  EXPECT_TRUE(fails(read_text(raw(two(0, 4, 4, 9), "12345678")),
                    "tensor 'b' ends at 9, the data has 8 bytes"));
  EXPECT_TRUE(
      fails(read_text(raw(two(0, 4, 4, 8), "123456789")), "1 bytes follow the last tensor"));
  EXPECT_TRUE(fails(read_text(raw(one("U8", "4", 4, 0), "1234")), "begin is behind the end"));
}

TEST(Safetensors, RefusesShapesUnlikeTheirBytes) {
  EXPECT_TRUE(fails(read_text(raw(one("F32", "2", 0, 4), "1234")),
                    "shape [2] of F32 has 8 bytes, data_offsets have 4"));
  EXPECT_TRUE(fails(read_text(raw(one("F32", "4294967296,4294967296", 0, 0), "")), "overflows"));
  EXPECT_TRUE(fails(read_text(raw(one("U8", "-1", 0, 0), "")), "negative"));
  EXPECT_TRUE(fails(read_text(raw(one("U8", "1e308", 0, 0), "")), "expected an integer"));
  EXPECT_TRUE(fails(read_text(raw(one("F128", "1", 0, 0), "")), "dtype 'F128' is not known"));
  EXPECT_TRUE(fails(read_text(raw(one("F4", "3", 0, 2), "12")), "does not end on a byte"));
  EXPECT_TRUE(read_text(raw(one("F4", "4", 0, 2), "12")).ok());
  EXPECT_TRUE(fails(read_text(raw(R"({"a":{"dtype":"U8","data_offsets":[0,0]}})", "")),
                    "tensor 'a': shape is missing"));
  EXPECT_TRUE(fails(read_text(raw(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})", "")),
                    "expected [begin, end]"));
}

TEST(Safetensors, SaysWhatIsWrongWithOtherFiles) {
  TestFolder folder;
  EXPECT_TRUE(fails(read(folder.file("none")), "does not exist"));
  EXPECT_TRUE(fails(read(folder.path()), "this is a folder"));
  EXPECT_TRUE(fails(read(folder.write("e", "")), "this is an empty file"));
  EXPECT_TRUE(fails(read(folder.write("j", "\xff\xd8\xff\xe0 more of it")), "a JPEG image"));
}

TEST(Safetensors, WhatIsWrittenReadsBackTheSame) {
  std::mt19937_64 random(3);
  const DType dtypes[] = {DType::kBool, DType::kI64, DType::kF32, DType::kBF16, DType::kF8E4M3};
  TestFolder folder;
  for (int round = 0; round < 50; ++round) {
    std::vector<Writer::Declaration> tensors;
    std::vector<std::string> contents;
    for (uint64_t n = random() % 7; n > 0; --n) {
      Writer::Declaration tensor{cat("layer.", n, ".\"w\"\xc3\xa9"), dtypes[random() % 5], {}};
      uint64_t bytes = item_bits(tensor.dtype) / 8;
      for (uint64_t rank = random() % 4; rank > 0; --rank) {
        tensor.shape.push_back(static_cast<int64_t>(random() % 5));
        bytes *= static_cast<uint64_t>(tensor.shape.back());
      }
      std::string content(bytes, '\0');
      for (char& c : content) c = static_cast<char>(random());
      contents.push_back(content);
      tensors.push_back(tensor);
    }
    const std::string path = folder.file("out.safetensors");
    auto writer = Writer::create(path, tensors, {{"format", "pt"}});
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    for (const std::string& content : contents) {
      // Whole, or in pieces.
      const size_t cut = content.empty() ? 0 : random() % content.size();
      ASSERT_TRUE(writer->append(as_bytes(content).subspan(0, cut)).ok());
      ASSERT_TRUE(writer->append(as_bytes(content).subspan(cut)).ok());
    }
    ASSERT_TRUE(writer->commit().ok());
    const auto file = read(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_EQ(file->tensors().size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const TensorInfo* tensor = file->find(tensors[i].name);
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->dtype, tensors[i].dtype);
      EXPECT_EQ(tensor->shape, tensors[i].shape);
      EXPECT_EQ(as_text(file->bytes(*tensor)), contents[i]);
    }
  }
}

TEST(SafetensorsWriter, RefusesMisuseAndLeavesNoFile) {
  TestFolder folder;
  const std::string path = folder.file("out.safetensors");
  EXPECT_TRUE(fails(Writer::create(path, {{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}),
                    "tensor name 'a'"));
  EXPECT_TRUE(fails(Writer::create(path, {{"a", DType::kU8, {-1}}}), "negative or overflows"));
  {
    auto writer = *Writer::create(path, {{"a", DType::kU8, {2}}, {"b", DType::kU8, {1}}});
    EXPECT_TRUE(fails(writer.append(as_bytes("123")), "'a' takes 2 bytes more, not 3"));
    EXPECT_TRUE(writer.append(as_bytes("12")).ok());
    EXPECT_TRUE(fails(writer.commit(), "'b' still lacks 1 bytes"));
  }
  EXPECT_FALSE(file_exists(path));
}

class Shards : public testing::Test {
 protected:
  Shards() {
    folder_.write("one.safetensors", raw(one("U8", "4", 0, 4), "1234"));
    std::string other = one("U8", "2", 0, 2);
    other.replace(2, 1, "b");
    folder_.write("two.safetensors", raw(other, "56"));
  }
  Result<Checkpoint> read_index(std::string_view map) {
    return read_checkpoint(
        folder_.write("model.safetensors.index.json", cat("{\"weight_map\": {", map, "}}")));
  }
  TestFolder folder_;
};

TEST_F(Shards, AreReadTogether) {
  const auto checkpoint = read_index(R"("a": "one.safetensors", "b": "two.safetensors")");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const Checkpoint::Location& b = checkpoint->tensors.at("b");
  EXPECT_EQ(as_text(checkpoint->files[b.file].bytes(*b.tensor)), "56");
  const auto single = read_checkpoint(folder_.file("one.safetensors"));
  ASSERT_TRUE(single.ok());
  EXPECT_EQ(single->tensors.size(), 1u);
}

TEST_F(Shards, LieBesideTheIndexAndHoldWhatItSays) {
  for (const char* name : {"../one.safetensors", "/tmp/one.safetensors", "..", "x\\\\y", ""}) {
    EXPECT_TRUE(fails(read_index(cat("\"a\": \"", name, "\"")), "is no file beside the index"));
  }
  EXPECT_TRUE(fails(read_index(R"("a": "three.safetensors")"), "does not exist"));
  EXPECT_TRUE(fails(read_index(R"("a": "two.safetensors", "b": "one.safetensors")"),
                    "'a' is in shard 'one.safetensors', expected in 'two.safetensors'"));
  EXPECT_TRUE(
      fails(read_index(R"("a": "one.safetensors", "c": "two.safetensors")"), "'c' is in no shard"));
  EXPECT_TRUE(fails(read_index(R"("a": "one.safetensors", "b": 3)"), "is no text"));
  EXPECT_TRUE(
      fails(read_index(R"("a": "one.safetensors", "a": "one.safetensors")"), "duplicate key 'a'"));
  folder_.write("model.safetensors.index.json", "{}");
  EXPECT_TRUE(fails(read_checkpoint(folder_.file("model.safetensors.index.json")), "weight_map"));
}

}  // namespace
}  // namespace downhaul::safetensors

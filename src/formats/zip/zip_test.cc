#include "formats/zip/zip.h"

#include <cstring>
#include <random>

#include "base/checked.h"
#include "formats/test_files.h"
#include "formats/zip/zip_writer.h"

namespace downhaul {
namespace {

using Vec = std::vector<uint8_t>;

Result<ZipArchive> open(const Vec& bytes) {
  return ZipArchive::open(std::make_shared<const Vec>(bytes));
}

/// Offset of the `nth` record that starts with the signature.
size_t find_record(const Vec& bytes, uint32_t signature, int nth = 0) {
  for (size_t i = 0; i + 4 <= bytes.size(); ++i) {
    uint32_t found;
    std::memcpy(&found, &bytes[i], 4);
    if (found == signature && nth-- == 0) return i;
  }
  ADD_FAILURE() << "no such record";
  return 0;
}
constexpr uint32_t kLocal = 0x04034b50;
constexpr uint32_t kCentral = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;

template <typename T>
void patch(Vec& bytes, size_t at, T value) {
  std::memcpy(&bytes[at], &value, sizeof(value));
}

Vec two_entries(ZipWriter::Options options = {}) {
  ZipWriter writer(options);
  writer.add("r/one", "first content");
  writer.add("r/two", "second");
  return writer.finish();
}

TEST(Zip, ReadsWhatTheWriterWroteWithEveryOption) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    ZipWriter::Options options;
    options.deflate = round % 2 == 1;
    options.alignment = round % 3 == 0 ? 64 : 1;
    options.data_descriptor = round % 4 < 2;
    options.zip64 = round % 5 == 0;
    ZipWriter writer(options);
    std::vector<std::pair<std::string, std::string>> contents;
    for (uint32_t n = random() % 8; n > 0; --n) {
      std::string content(random() % 3000, '\0');
      for (char& c : content) c = static_cast<char>(random() % 7);
      contents.emplace_back(cat("folder/entry ", n), content);
      writer.add(contents.back().first, contents.back().second);
      EXPECT_EQ(writer.last_offset() % options.alignment, 0u);
    }
    const Vec bytes = writer.finish();
    TestFolder folder;
    const auto file = *MappedFile::open(folder.write("a.zip", bytes));
    const auto archive = ZipArchive::open(file);
    ASSERT_TRUE(archive.ok()) << archive.status().message();
    ASSERT_EQ(archive->entries().size(), contents.size());
    for (const auto& [name, content] : contents) {
      const ZipEntry* entry = archive->find(name);
      ASSERT_NE(entry, nullptr);
      const auto read = archive->read(*entry);
      ASSERT_TRUE(read.ok()) << read.status().message();
      EXPECT_EQ(as_text(read->bytes), content);
      EXPECT_EQ(read->file_offset.has_value(), !options.deflate);
      EXPECT_TRUE(archive->verify_crc(*entry).ok());
    }
  }
}

TEST(Zip, StoredEntriesStayInTheMappedFile) {
  TestFolder folder;
  const auto file = *MappedFile::open(folder.write("a.zip", two_entries()));
  const auto archive = *ZipArchive::open(file);
  const auto read = *archive.read(*archive.find("r/two"));
  EXPECT_EQ(read.bytes.data(), file->bytes().data() + *read.file_offset);
}

TEST(Zip, OpensAnArchiveInsideAnArchive) {
  for (const bool deflate : {false, true}) {
    ZipWriter outer(ZipWriter::Options{deflate});
    outer.add("before", "x");
    outer.add("inner.zip", two_entries());
    TestFolder folder;
    const auto file = *MappedFile::open(folder.write("a.zip", outer.finish()));
    const auto archive = *ZipArchive::open(file);
    const auto inner = ZipArchive::open(archive, *archive.find("inner.zip"));
    ASSERT_TRUE(inner.ok()) << inner.status().message();
    const auto read = *inner->read(*inner->find("r/one"));
    EXPECT_EQ(as_text(read.bytes), "first content");
    EXPECT_EQ(read.file_offset.has_value(), !deflate);
    if (!read.file_offset) continue;
    EXPECT_EQ(read.bytes.data(), file->bytes().data() + *read.file_offset);
  }
  ZipWriter outer;
  outer.add("inner.zip", two_entries());
  const auto archive = *open(outer.finish());
  const auto inner = *ZipArchive::open(archive, *archive.find("inner.zip"));
  EXPECT_EQ(as_text(inner.read(*inner.find("r/two"))->bytes), "second");
  EXPECT_TRUE(inner.verify_crc(*inner.find("r/two")).ok());
}

TEST(Zip, AcceptsACommentBehindTheEndRecord) {
  Vec bytes = two_entries();
  patch<uint16_t>(bytes, bytes.size() - 2, 5);
  for (const char c : {'h', 'e', 'l', 'l', 'o'}) bytes.push_back(static_cast<uint8_t>(c));
  EXPECT_TRUE(open(bytes).ok());
}

TEST(Zip, ADamagedPayloadOpensAndFailsOnlyTheChecksum) {
  Vec bytes = two_entries();
  const auto whole = *open(bytes);
  bytes[whole.find("r/one")->data_offset] ^= 1;
  const auto archive = open(bytes);
  ASSERT_TRUE(archive.ok());
  EXPECT_TRUE(fails(archive->verify_crc(*archive->find("r/one")), "checksum"));
  EXPECT_TRUE(archive->verify_crc(*archive->find("r/two")).ok());
}

TEST(Zip, RefusesLocalHeadersThatDisagree) {
  const Vec good = two_entries();
  const size_t local = find_record(good, kLocal);
  struct Case {
    size_t offset;
    uint8_t flip;
    const char* message;
  };
  for (const Case& c : {Case{6, 1, "flags"}, Case{8, 8, "method"}, Case{14, 1, "checksum"},
                        Case{18, 1, "size"}, Case{22, 1, "size"}, Case{26, 1, "name"},
                        Case{30, 1, "name"}, Case{0, 1, "no local header"}}) {
    Vec bad = good;
    bad[local + c.offset] ^= c.flip;
    EXPECT_TRUE(fails(open(bad), c.message));
    EXPECT_TRUE(fails(open(bad), "'r/one'"));
  }
}

TEST(Zip, RefusesSizesThatTheArchiveDoesNotHave) {
  const uint32_t huge = 0x83000000;
  for (const bool behind : {false, true}) {
    ZipWriter::Options options;
    options.data_descriptor = behind;
    const Vec good = two_entries(options);
    const size_t central = find_record(good, kCentral);
    Vec bad = good;
    patch(bad, central + 24, huge);
    EXPECT_TRUE(fails(open(bad), "record 'r/one' declares 2197815296 bytes, archive has 13"));
    patch(bad, central + 20, huge);
    if (!behind) {
      const size_t local = find_record(bad, kLocal);
      patch(bad, local + 18, huge);
      patch(bad, local + 22, huge);
    }
    EXPECT_TRUE(fails(open(bad), "record 'r/one' declares 2197815296 bytes, archive has"));
  }
}

TEST(Zip, RefusesBombsBeforeInflating) {
  ZipWriter writer(ZipWriter::Options{true});
  writer.add("bomb", std::string(1000, 'a'));
  Vec bytes = writer.finish();
  for (const auto& [record, offset] : {std::pair{kLocal, 22}, std::pair{kCentral, 24}}) {
    patch<uint32_t>(bytes, find_record(bytes, record) + static_cast<size_t>(offset), 4000000000u);
  }
  EXPECT_TRUE(fails(open(bytes), "declares 4000000000 bytes out of"));
}

TEST(Zip, RefusesDataThatInflatesToMoreThanDeclared) {
  ZipWriter writer(ZipWriter::Options{true});
  writer.add("liar", std::string(1000, 'a'));
  Vec bytes = writer.finish();
  patch<uint32_t>(bytes, find_record(bytes, kLocal) + 22, 999);
  patch<uint32_t>(bytes, find_record(bytes, kCentral) + 24, 999);
  const auto archive = open(bytes);
  ASSERT_TRUE(archive.ok());
  EXPECT_TRUE(fails(archive->read(*archive->find("liar")), "does not inflate to the declared 999"));
}

TEST(Zip, RefusesMoreInflatedBytesThanTheArchiveExplains) {
  // Each entry alone is within the ratio; together they are not.
  ZipWriter writer(ZipWriter::Options{true});
  std::string content(19 << 20, '\0');
  for (size_t i = 0; i < content.size(); i += 2000) content[i] = static_cast<char>(i / 2000 * 37);
  for (int i = 0; i < 4; ++i) writer.add(cat("zeros", i), content);
  const auto archive = open(writer.finish());
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  Status last;
  for (const ZipEntry& entry : archive->entries()) {
    if (last.ok()) last = archive->read(entry).status();
  }
  EXPECT_TRUE(fails(last, "accepted for an archive of this size"));
}

TEST(Zip, RefusesDuplicateAndOverlappingEntries) {
  ZipWriter writer;
  writer.add("a", "1");
  writer.add("a", "2");
  EXPECT_TRUE(fails(open(writer.finish()), "two entries are named 'a'"));

  // The second directory entry leads to the first one's data.
  Vec bytes = two_entries();
  const size_t first = find_record(bytes, kCentral);
  const size_t second = find_record(bytes, kCentral, 1);
  std::memcpy(&bytes[second + 16], &bytes[first + 16], 12);
  std::memcpy(&bytes[second + 42], &bytes[first + 42], 4);
  const size_t local = find_record(bytes, kLocal);
  std::memcpy(&bytes[local + 30], "r/two", 5);
  std::memcpy(&bytes[first + 46], "r/two", 5);
  std::memcpy(&bytes[second + 46], "r/twp", 5);
  EXPECT_TRUE(fails(open(bytes), "disagree about the name"));
}

TEST(Zip, RefusesEntriesThatShareBytes) {
  ZipWriter inner;
  inner.add("hidden", "payload");
  ZipWriter writer;
  writer.add("cover", inner.finish());
  Vec bytes = writer.finish();
  // A second directory entry for the local header inside the first one's data.
  const auto archive = *open(bytes);
  const size_t central = find_record(bytes, kCentral, 1);
  Vec entry(bytes.begin() + static_cast<ptrdiff_t>(find_record(bytes, kCentral)),
            bytes.begin() + static_cast<ptrdiff_t>(find_record(bytes, kCentral)) + 46 + 6);
  patch<uint32_t>(entry, 42, static_cast<uint32_t>(archive.find("cover")->data_offset));
  bytes.insert(bytes.begin() + static_cast<ptrdiff_t>(central), entry.begin(), entry.end());
  const size_t end = bytes.size() - 22;
  patch<uint16_t>(bytes, end + 8, 2);
  patch<uint16_t>(bytes, end + 10, 2);
  patch<uint32_t>(bytes, end + 12, static_cast<uint32_t>(end - central));
  EXPECT_TRUE(fails(open(bytes), "'cover' and 'hidden' overlap"));
}

TEST(Zip, RefusesNamesThatLeadElsewhere) {
  const std::string with_nul("a\0b", 3);
  for (const std::string& name :
       {std::string("../../x"), std::string("/etc/x"), std::string("C:\\x"), std::string("a\\b"),
        with_nul, std::string(65535, 'n'), std::string("a/../b"), std::string()}) {
    ZipWriter writer;
    writer.add(name, "x");
    EXPECT_TRUE(fails(open(writer.finish()), "entry name")) << name;
  }
}

TEST(Zip, RefusesEveryTruncation) {
  const Vec good = two_entries();
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(open(Vec(good.begin(), good.begin() + static_cast<ptrdiff_t>(length))).ok())
        << length;
  }
}

TEST(Zip, RefusesDirectoriesThatDoNotFit) {
  const Vec good = two_entries();
  const size_t end = find_record(good, kEnd);
  for (const size_t offset : {12u, 16u}) {
    Vec bad = good;
    patch<uint32_t>(bad, end + offset, 0x7FFFFFFF);
    EXPECT_TRUE(fails(open(bad), "central directory"));
  }
  Vec many = good;
  patch<uint16_t>(many, end + 10, 60000);
  EXPECT_TRUE(fails(open(many), "cannot hold 60000 entries"));
  Vec parts = good;
  patch<uint16_t>(parts, end + 4, 3);
  EXPECT_TRUE(fails(open(parts), "several parts"));
}

}  // namespace
}  // namespace downhaul

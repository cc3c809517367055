#include "formats/sniff.h"

#include <sys/stat.h>
#include <unistd.h>

#include "formats/pt2/test_archive.h"
#include "formats/test_files.h"

namespace downhaul {
namespace {

std::string fixture(std::string_view name) {
  return cat(DH_SOURCE_DIR, "/tests/fixtures/formats/", name);
}

TEST(Sniff, KnowsFilesByTheirContent) {
  TestFolder folder;
  const auto content = [&](std::string_view bytes) { return sniff(folder.write("f.pte", bytes)); };
  using namespace std::string_view_literals;
  EXPECT_EQ(content(""), FileType::kEmpty);
  EXPECT_EQ(content("\xff\xd8\xff\xe0\0\0"sv), FileType::kJpeg);
  EXPECT_EQ(content("\x89PNG\r\n\x1a\n...."), FileType::kPng);
  EXPECT_EQ(content("\x30\0\0\0ET12...."sv), FileType::kPte);
  EXPECT_EQ(content("\x30\0\0\0ET99...."sv), FileType::kPte);
  EXPECT_EQ(content("\x02\0\0\0\0\0\0\0{}"sv), FileType::kSafetensors);
  EXPECT_EQ(content("\x80\x02}q\x01."), FileType::kPickle);
  EXPECT_EQ(content("{\"a\": 1}"), FileType::kJson);
  EXPECT_EQ(content("{\"model_id\": \"gpt2\"}"), FileType::kModelSpec);
  EXPECT_EQ(content("hello\n"), FileType::kText);
  EXPECT_EQ(content("\x01\x02\x03\x04"), FileType::kUnknown);
  EXPECT_EQ(content("\x08\x04\x12\x10 model"), FileType::kMlModel);
  EXPECT_EQ(sniff(fixture("training.pt2")), FileType::kPt2);
  EXPECT_EQ(sniff(fixture("layout_2_7.pt2")), FileType::kPt2);
  EXPECT_EQ(sniff(fixture("zip.pt")), FileType::kTorchSave);
  EXPECT_EQ(sniff(fixture("legacy.pt")), FileType::kTorchSaveLegacy);
  ZipWriter zip;
  zip.add("a.txt", "x");
  EXPECT_EQ(sniff(folder.write("x.zip", zip.finish())), FileType::kZip);
}

TEST(Sniff, KnowsFoldersByWhatIsInThem) {
  const auto with = [](std::string_view name) {
    TestFolder folder;
    if (!name.empty()) folder.write(name, "{}");
    return sniff(folder.path());
  };
  EXPECT_EQ(with(""), FileType::kFolder);
  EXPECT_EQ(with("Manifest.json"), FileType::kMlPackage);
  EXPECT_EQ(with("coremldata.bin"), FileType::kMlModelCompiled);
  EXPECT_EQ(with("config.json"), FileType::kCheckpointFolder);
}

TEST(Sniff, NeverHangsAndNamesWhatItFound) {
  TestFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("fifo").c_str(), 0600), 0);
  EXPECT_EQ(sniff(folder.file("fifo")), FileType::kSpecial);
  EXPECT_EQ(sniff("/dev/null"), FileType::kSpecial);
  EXPECT_EQ(sniff(folder.file("none")), FileType::kMissing);
  EXPECT_TRUE(fails(unexpected_file(folder.file("fifo"), "a .pte program"),
                    "expected a .pte program, this is a pipe, socket or device"));
  EXPECT_EQ(unexpected_file(folder.file("none"), "x").kind(), ErrorKind::kNotFound);
  const std::string secret = folder.write("secret", "x");
  ASSERT_EQ(::chmod(secret.c_str(), 0), 0);
  if (::access(secret.c_str(), R_OK) != 0) {  // root reads everything
    EXPECT_EQ(unexpected_file(secret, "x").kind(), ErrorKind::kIo);
  }
}

}  // namespace
}  // namespace downhaul

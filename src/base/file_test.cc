#include "base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/strings.h"

namespace downhaul {
namespace {

class Folder : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "/downhaul_file_test_" + std::to_string(::getpid());
    std::filesystem::create_directories(path_);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  std::string path_;
};
using File = Folder;

TEST_F(File, AppearsOnlyWhenCommitted) {
  const std::string target = path_ + "/out.bin";
  {
    auto out = OutputFile::create(target);
    ASSERT_TRUE(out.ok());
    ASSERT_TRUE(out->write(as_bytes("half")).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(path_));
  ASSERT_TRUE(write_file(target, as_bytes("whole")).ok());
  EXPECT_EQ(*read_text_file(target), "whole");
}

TEST_F(File, FailureLeavesTheOldFileAlone) {
  const std::string target = path_ + "/out.bin";
  ASSERT_TRUE(write_file(target, as_bytes("old")).ok());
  {
    auto out = *OutputFile::create(target);
    ASSERT_TRUE(out.write(as_bytes("new")).ok());
  }
  EXPECT_EQ(*read_text_file(target), "old");
}

TEST_F(File, ALinkIsReplacedAndWhatItPointsToStays) {
  ASSERT_TRUE(write_file(path_ + "/target", as_bytes("old")).ok());
  std::filesystem::create_symlink("target", path_ + "/link");
  ASSERT_TRUE(write_file(path_ + "/link", as_bytes("new")).ok());
  EXPECT_EQ(*read_text_file(path_ + "/target"), "old");
  EXPECT_EQ(*read_text_file(path_ + "/link"), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(path_ + "/link"));
}

TEST_F(File, AFileThatIsMappedMayBeReplaced) {
  ASSERT_TRUE(write_file(path_ + "/a", as_bytes("0123")).ok());
  auto source = *MappedFile::open(path_ + "/a");
  auto out = *OutputFile::create(path_ + "/a");
  ASSERT_TRUE(out.write(as_bytes("<")).ok());
  ASSERT_TRUE(out.copy_from(*source, 0, 4).ok());
  ASSERT_TRUE(out.commit().ok());
  EXPECT_EQ(*read_text_file(path_ + "/a"), "<0123");
  EXPECT_EQ(as_text(source->bytes()), "0123");
}

TEST_F(File, CopiesARangeOfAMappedFile) {
  ASSERT_TRUE(write_file(path_ + "/a", as_bytes("0123456789")).ok());
  auto source = *MappedFile::open(path_ + "/a");
  auto out = *OutputFile::create(path_ + "/b");
  ASSERT_TRUE(out.write(as_bytes("<")).ok());
  ASSERT_TRUE(out.copy_from(*source, 2, 5).ok());
  ASSERT_TRUE(out.write_zeros(2).ok());
  EXPECT_EQ(out.position(), 8u);
  EXPECT_FALSE(out.copy_from(*source, 8, 3).ok());
  ASSERT_TRUE(out.commit().ok());
  EXPECT_EQ(*read_text_file(path_ + "/b"), std::string("<23456\0\0", 8));
}

TEST_F(File, RefusesFoldersPipesAndMissingPathsWithoutHanging) {
  EXPECT_EQ(MappedFile::open(path_).status().kind(), ErrorKind::kInvalidFile);
  EXPECT_EQ(MappedFile::open(path_ + "/none").status().kind(), ErrorKind::kNotFound);
  ASSERT_EQ(::mkfifo((path_ + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(path_ + "/fifo").status().kind(), ErrorKind::kInvalidFile);
}

TEST_F(File, MapsAnEmptyFile) {
  ASSERT_TRUE(write_file(path_ + "/empty", {}).ok());
  EXPECT_TRUE((*MappedFile::open(path_ + "/empty"))->bytes().empty());
}

TEST(Strings, PrintableEscapesWhatATerminalWouldNotShow) {
  EXPECT_EQ(printable(std::string_view("a\n\xff\xc3\xa9", 5)), "a\\x0a\\xff\xc3\xa9");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

TEST(Strings, CatWritesShortestRoundTripNumbers) {
  EXPECT_EQ(cat("x", 1, ' ', 0.1, ' ', 1e-12, ' ', true), "x1 0.1 1e-12 true");
}

}  // namespace
}  // namespace downhaul

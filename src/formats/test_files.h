#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/strings.h"

/// For tests only: files in a folder that goes away with the test.
namespace downhaul {

class TestFolder {
 public:
  TestFolder() {
    static int counter = 0;
    path_ = cat(testing::TempDir(), "/downhaul_formats_", ::getpid(), "_", counter++);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return cat(path_, "/", name); }
  std::string write(std::string_view name, Bytes bytes) const {
    const std::string path = file(name);
    EXPECT_TRUE(write_file(path, bytes).ok());
    return path;
  }
  std::string write(std::string_view name, std::string_view text) const {
    return write(name, as_bytes(text));
  }

 private:
  std::string path_;
};

/// EXPECT_TRUE(fails(result, "part of the message")): an error of one line that says so.
template <typename R>
testing::AssertionResult fails(const R& result, std::string_view part) {
  const Status* status = nullptr;
  if constexpr (requires { result.status(); }) {
    if (!result.ok()) status = &result.status();
  } else {
    if (!result.ok()) status = &result;
  }
  if (!status) return testing::AssertionFailure() << "no error, expected '" << part << "'";
  if (status->message().find(part) == std::string::npos) {
    return testing::AssertionFailure() << "'" << status->message() << "' lacks '" << part << "'";
  }
  if (status->message().find('\n') != std::string::npos) {
    return testing::AssertionFailure() << "more than a line: " << status->message();
  }
  return testing::AssertionSuccess();
}

}  // namespace downhaul

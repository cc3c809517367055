#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "base/strings.h"

/// What a fuzz target consists of: the entry that libFuzzer calls, and whole inputs to start from.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace downhaul {

std::vector<std::vector<uint8_t>> fuzz_seeds();

/// The bytes as a mapped file that has no name in the file system.
inline std::shared_ptr<const MappedFile> map_bytes(Bytes bytes) {
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  DH_CHECK(fd >= 0);
  DH_CHECK(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  auto file = MappedFile::open(cat("/proc/self/fd/", fd));
  DH_CHECK(file.ok());
  ::close(fd);
  return *std::move(file);
}

/// Reads the first and the last byte, so that a wrong range is noticed.
inline void touch(Bytes bytes) {
  if (bytes.empty()) return;
  volatile uint8_t sink = bytes.front();
  sink = bytes.back();
  (void)sink;
}

/// Errors are one line and not empty.
inline void check_message(const Status& status) {
  DH_CHECK(!status.ok() && !status.message().empty());
  DH_CHECK(status.message().find('\n') == std::string::npos);
}

}  // namespace downhaul

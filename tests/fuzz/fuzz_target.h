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

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(begin, size) ((void)(begin), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(begin, size) ((void)(begin), (void)(size))
#endif

/// What a fuzz target consists of: the entry that libFuzzer calls, and whole inputs to start from.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace downhaul {

std::vector<std::vector<uint8_t>> fuzz_seeds();

/// The bytes as a mapped file that has no name in the file system. What is left of its last page is
/// out of bounds for a sanitizer.
inline std::shared_ptr<const MappedFile> map_bytes(Bytes bytes) {
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  DH_CHECK(fd >= 0);
  DH_CHECK(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  auto file = MappedFile::open(cat("/proc/self/fd/", fd));
  DH_CHECK(file.ok());
  ::close(fd);
  const uint8_t* end = (*file)->bytes().data() + bytes.size();
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t rest = (page - bytes.size() % page) % page;
  if (bytes.empty() || rest == 0) return *std::move(file);
  ASAN_POISON_MEMORY_REGION(end, rest);
  const MappedFile* mapped = file->get();
  return {mapped, [end, rest, keep = *std::move(file)](const MappedFile*) {
            ASAN_UNPOISON_MEMORY_REGION(end, rest);
          }};
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

// Reads bytes as a .pte file, and the payloads of what was accepted.

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/strings.h"
#include "formats/pte/example_programs.h"
#include "formats/pte/pte.h"
#include "formats/xnn/xnn.h"
#include "fuzz.h"

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(begin, size) ((void)(begin), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(begin, size) ((void)(begin), (void)(size))
#endif

using namespace downhaul;  // NOLINT: a program of its own

namespace {

// Touches what a consumer would: every range of an accepted file, through its tensors and keys.
uint64_t use(const PteFile& file) {
  uint64_t sum = 0;
  const auto add = [&sum](Bytes bytes) {
    if (!bytes.empty()) sum += bytes.front() + bytes.back();
  };
  for (const pte::Plan& plan : file.program.plans) {
    for (const pte::Value& value : plan.values) {
      const auto* tensor = std::get_if<pte::Tensor>(&value);
      if (tensor == nullptr) continue;
      if (const auto range = file.data_range(*tensor)) add(file.bytes(*range));
    }
    for (const pte::Delegate& d : plan.delegates) {
      const auto graph = read_xnn_payload(
          file.payload(d), [&file](std::string_view key) { return file.find_named_data(key); });
      if (!graph.ok()) continue;
      for (const XnnConstant& c : graph->constants) add(c.data);
    }
  }
  for (const PteNamedData& named : file.named_data) add(file.bytes(named.range));
  uint64_t total = 0;
  for (const PtePart& part : file.parts) total += part.range.size;
  if (total != file.file->bytes().size()) __builtin_trap();
  return sum;
}

std::vector<uint8_t> written(const examples::Example& example) {
  const std::string path = cat("/tmp/downhaul-fuzz-", ::getpid(), ".pte");
  auto out = OutputFile::create(path);
  if (!out.ok() || !example.builder.write(example.program, *out).ok() || !out->commit().ok()) {
    return {};
  }
  auto file = MappedFile::open(path);
  ::unlink(path.c_str());
  if (!file.ok()) return {};
  return {(*file)->bytes().begin(), (*file)->bytes().end()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A file in memory: as real as one on disk for the reader.
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0) return 0;
  const bool complete = ::write(fd, data, size) == static_cast<ssize_t>(size);
  auto file = MappedFile::open(cat("/proc/self/fd/", fd));
  ::close(fd);
  if (!complete || !file.ok()) return 0;
  // The rest of the last page is readable, but not the file's.
  const uint8_t* end = (*file)->bytes().data() + size;
  const size_t rest = size == 0 ? 0 : (4096 - size % 4096) % 4096;
  ASAN_POISON_MEMORY_REGION(end, rest);
  const auto read = read_pte(*file);
  if (read.ok()) {
    volatile uint64_t used = use(*read);
    (void)used;
  } else if (read.status().message().find('\n') != std::string::npos) {
    __builtin_trap();
  }
  ASAN_UNPOISON_MEMORY_REGION(end, rest);
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  auto all = examples::all();
  if (!all.ok()) return seeds;
  for (const examples::Example& example : *all) seeds.push_back(written(example));
  return seeds;
}

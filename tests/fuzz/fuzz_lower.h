#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "fuzz_target.h"
#include "ir/verify.h"
#include "passes/passes.h"
#include "report/artifact.h"
#include "targets/portable/portable.h"
#include "targets/xnnpack/xnnpack.h"

/// The whole way from a model file to a program, for targets that change the file.
namespace downhaul::fuzz {

inline std::vector<uint8_t> read_bytes(const std::string& path) {
  const auto file = MappedFile::open(path);
  DH_CHECK(file.ok());
  return {(*file)->bytes().begin(), (*file)->bytes().end()};
}

/// Exported programs that lower to both targets.
inline std::vector<std::string> lowerable() {
  std::vector<std::string> paths;
  for (const char* name :
       {"inplace_alias", "masked_attention", "conv_relu_reuse", "bilinear_rules"})
    paths.push_back(cat(DH_SOURCE_DIR, "/tests/fixtures/lower/", name, ".pt2"));
  return paths;
}

inline Result<Artifact> load_bytes(Bytes bytes) {
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  DH_CHECK(fd >= 0);
  DH_CHECK(::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  auto artifact = load_artifact(cat("/proc/self/fd/", fd));
  ::close(fd);
  return artifact;
}

inline Result<EmittedProgram> lower(Graph& graph, bool xnnpack) {
  DH_TRY(run_pipeline(graph, canonical_passes(), {}, nullptr, nullptr));
  if (xnnpack) {
    DH_ASSIGN(XnnpackLowered x, lower_xnnpack(graph));
    return std::move(x.lowered.program);
  }
  DH_ASSIGN(Lowered p, lower_portable(graph, {}));
  return std::move(p.program);
}

inline Result<std::vector<uint8_t>> lower_to_bytes(Graph& graph, bool xnnpack) {
  DH_ASSIGN(const EmittedProgram program, lower(graph, xnnpack));
  const std::string path = cat("/tmp/downhaul-fuzz-", ::getpid(), ".pte");
  DH_ASSIGN(OutputFile out, OutputFile::create(path));
  DH_ASSIGN([[maybe_unused]] const SizeReport report, write_program(program, out));
  DH_TRY(out.commit());
  DH_ASSIGN(const auto file, MappedFile::open(path));
  ::unlink(path.c_str());
  return std::vector<uint8_t>(file->bytes().begin(), file->bytes().end());
}

/// Whatever the bytes are: a lowered program, or one line that says why not. What is read is a
/// valid graph, and stays one.
inline void load_and_lower(Bytes bytes) {
  // Which target comes from the bytes, so that a file found is a file to reproduce with.
  uint8_t sum = 0;
  for (const uint8_t byte : bytes) sum = static_cast<uint8_t>(sum + byte);
  auto loaded = load_bytes(bytes);
  if (!loaded.ok()) return check_message(loaded.status());
  const Status outcome = verify(*loaded->graph);
  DH_CHECK(outcome.ok());
  const auto lowered = lower(*loaded->graph, sum % 2 == 0);
  if (lowered.ok()) return;
  check_message(lowered.status());
  if (lowered.status().kind() == ErrorKind::kInvalidGraph)
    std::fprintf(stderr, "\n%s\n", lowered.status().message().c_str());
  DH_CHECK(lowered.status().kind() != ErrorKind::kInvalidGraph);
}

}  // namespace downhaul::fuzz

// Reads bytes as a .pte file, and the payloads of what was accepted.

#include <unistd.h>

#include <string>

#include "formats/pte/example_programs.h"
#include "formats/pte/pte.h"
#include "formats/xnn/xnn.h"
#include "fuzz_target.h"

namespace downhaul {
namespace {

// Touches what a consumer would: every range of an accepted file, through its tensors and keys.
void use(const PteFile& file) {
  const auto lookup = [&file](std::string_view key) { return file.find_named_data(key); };
  for (const pte::Plan& plan : file.program.plans) {
    for (const pte::Value& value : plan.values) {
      const auto* tensor = std::get_if<pte::Tensor>(&value);
      if (tensor == nullptr) continue;
      if (const auto range = file.data_range(*tensor)) touch(file.bytes(*range));
    }
    for (const pte::Delegate& d : plan.delegates) {
      const auto graph = read_xnn_payload(file.payload(d), lookup);
      if (!graph.ok()) {
        check_message(graph.status());
        continue;
      }
      for (const XnnConstant& c : graph->constants) touch(c.data);
    }
  }
  for (const PteNamedData& named : file.named_data) touch(file.bytes(named.range));
  uint64_t total = 0;
  for (const PtePart& part : file.parts) total += part.range.size;
  DH_CHECK(total == file.file->bytes().size());
}

std::vector<uint8_t> written(const examples::Example& example) {
  const std::string path = cat("/tmp/downhaul-fuzz-", ::getpid(), ".pte");
  auto out = OutputFile::create(path);
  DH_CHECK(out.ok() && example.builder.write(example.program, *out).ok() && out->commit().ok());
  auto file = MappedFile::open(path);
  ::unlink(path.c_str());
  DH_CHECK(file.ok());
  return {(*file)->bytes().begin(), (*file)->bytes().end()};
}

}  // namespace

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  const auto all = examples::all();
  DH_CHECK(all.ok());
  std::vector<std::vector<uint8_t>> seeds;
  for (const examples::Example& example : *all) seeds.push_back(written(example));
  return seeds;
}

}  // namespace downhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downhaul;
  const auto read = read_pte(map_bytes({data, size}));
  if (read.ok()) {
    use(*read);
  } else {
    check_message(read.status());
  }
  return 0;
}

#include "formats/pickle/pickle.h"
#include "fuzz_target.h"

namespace downhaul {

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const char* name : {"zip.pt", "legacy.pt", "nested_protocol_4.pt", "typed.pt"}) {
    const auto file = MappedFile::open(cat(DH_SOURCE_DIR, "/tests/fixtures/formats/", name));
    DH_CHECK(file.ok());
    DH_CHECK(torch_save::read(*file).ok());
    seeds.emplace_back((*file)->bytes().begin(), (*file)->bytes().end());
  }
  return seeds;
}

}  // namespace downhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downhaul;
  const auto file = torch_save::read(map_bytes({data, size}));
  if (!file.ok()) {
    check_message(file.status());
    return 0;
  }
  for (const torch_save::TensorInfo& tensor : file->tensors) {
    touch(file->storages[tensor.storage].bytes);
  }
  return 0;
}

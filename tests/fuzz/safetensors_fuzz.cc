#include <cstring>

#include "formats/safetensors/safetensors.h"
#include "fuzz_target.h"

namespace downhaul {

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F16","shape":[2],"data_offsets":[4,8]},)"
      R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]},)"
      R"("e":{"dtype":"F32","shape":[0,3],"data_offsets":[8,8]}}   )";
  const uint64_t length = header.size();
  std::vector<uint8_t> bytes(8);
  std::memcpy(bytes.data(), &length, 8);
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.resize(bytes.size() + 8);
  DH_CHECK(safetensors::read(map_bytes(bytes)).ok());
  return {bytes};
}

}  // namespace downhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace downhaul;
  const auto file = safetensors::read(map_bytes({data, size}));
  if (!file.ok()) {
    check_message(file.status());
    return 0;
  }
  for (const safetensors::TensorInfo& tensor : file->tensors()) touch(file->bytes(tensor));
  return 0;
}

// Reads bytes as an ExecuTorch program, raises it and lowers it again.

#include "fuzz_lower.h"
#include "fuzz_target.h"

namespace downhaul {

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string& path : fuzz::lowerable()) {
    for (const bool xnnpack : {false, true}) {
      auto loaded = fuzz::load_bytes(fuzz::read_bytes(path));
      DH_CHECK(loaded.ok());
      auto pte = fuzz::lower_to_bytes(*loaded->graph, xnnpack);
      DH_CHECK(pte.ok());
      seeds.push_back(*std::move(pte));
    }
  }
  return seeds;
}

}  // namespace downhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  downhaul::fuzz::load_and_lower({data, size});
  return 0;
}

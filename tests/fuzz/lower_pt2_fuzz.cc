// Reads bytes as an exported program and lowers it to one target or the other.

#include "fuzz_lower.h"
#include "fuzz_target.h"

namespace downhaul {

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string& path : fuzz::lowerable()) seeds.push_back(fuzz::read_bytes(path));
  // These hold states, which no target writes; reading them comes first.
  for (const char* name : {"training.pt2", "decomposed.pt2", "layout_2_8.pt2", "layout_2_7.pt2"})
    seeds.push_back(fuzz::read_bytes(cat(DH_SOURCE_DIR, "/tests/fixtures/formats/", name)));
  for (const auto& seed : seeds) DH_CHECK(fuzz::load_bytes(seed).ok());
  return seeds;
}

}  // namespace downhaul

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  downhaul::fuzz::load_and_lower({data, size});
  return 0;
}

#include "base/hash.h"

#include <cstring>

namespace downhaul {
namespace {

// Odd numbers with well mixed bits: the first digits of the square roots of primes, made odd.
constexpr uint64_t kFactors[4] = {0x6a09e667f3bcc909, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                  0xa54ff53a5f1d36f1};

uint64_t mix(uint64_t h, uint64_t word, uint64_t factor) {
  h = (h ^ word) * factor;
  return h ^ (h >> 29);
}

}  // namespace

uint64_t hash_bytes(Bytes bytes, uint64_t seed) {
  // Four chains, so that one multiplication need not wait for another.
  uint64_t h[4];
  for (int i = 0; i < 4; ++i) h[i] = seed + kFactors[i];
  const uint8_t* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 32; left -= 32, p += 32) {
    uint64_t words[4];
    std::memcpy(words, p, 32);
    // Unrolled, so that the chains stay in registers.
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) h[i] = mix(h[i], words[i], kFactors[i]);
  }
  uint64_t last[4] = {};
  if (left > 0) std::memcpy(last, p, left);
  for (int i = 0; i < 4; ++i) h[i] = mix(h[i], last[i], kFactors[i]);
  uint64_t result = mix(seed, bytes.size(), kFactors[0]);
  for (int i = 0; i < 4; ++i) result = mix(result, h[i], kFactors[3 - i]);
  return result ^ (result >> 32);
}

uint64_t hash_text(std::string_view text, uint64_t seed) {
  return hash_bytes(Bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size()), seed);
}

}  // namespace downhaul

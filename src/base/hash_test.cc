#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace downhaul {
namespace {

TEST(Hash, EveryBitAndTheLengthCount) {
  std::vector<uint8_t> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  std::set<uint64_t> seen;
  for (size_t n = 0; n <= bytes.size(); ++n) seen.insert(hash_bytes(Bytes(bytes.data(), n)));
  EXPECT_EQ(seen.size(), 101u);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    seen.insert(hash_bytes(bytes));
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }
  EXPECT_EQ(seen.size(), 101u + 800u);
  EXPECT_NE(hash_bytes(bytes, 1), hash_bytes(bytes, 2));
}

TEST(Hash, IsTheSameOnEveryMachine) {
  EXPECT_EQ(hash_text(""), hash_text(std::string_view()));
  EXPECT_EQ(hash_text("downhaul"), 11483999044772788647u);
}

}  // namespace
}  // namespace downhaul

#include "kernels/isa.h"

#include <gtest/gtest.h>

namespace downhaul {
namespace {

TEST(Isa, TheHighestIsInUseUnlessLowered) {
  const std::vector<Isa> isas = supported_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(active_isa(), isas.back());
  {
    const ScopedIsa lowered(isas.front());
    EXPECT_EQ(active_isa(), isas.front());
    EXPECT_EQ(supported_isas(), isas);
  }
  EXPECT_EQ(active_isa(), isas.back());
}

TEST(Isa, AnUnknownNameIsRefusedWithThoseThereAre) {
  const Status status = lower_isa("avx1024");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(name(Isa::kBaseline)), std::string::npos);
}

}  // namespace
}  // namespace downhaul

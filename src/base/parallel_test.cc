#include "base/parallel.h"

#include <gtest/gtest.h>

#include <vector>

namespace downhaul {
namespace {

TEST(Parallel, CoversEveryIndexOnceForAnyThreadCount) {
  for (const int n : {1, 2, 3, 8}) {
    set_num_threads(n);
    for (const int64_t count : {0, 1, 7, 64, 1000}) {
      std::vector<int> hits(static_cast<size_t>(count), 0);
      parallel_for(count, 4, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(hits, std::vector<int>(static_cast<size_t>(count), 1));
    }
  }
  set_num_threads(1);
}

TEST(Parallel, NestedCallsRunSerially) {
  set_num_threads(4);
  std::vector<int> hits(100, 0);
  parallel_for(10, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      parallel_for(10, 1, [&](int64_t b, int64_t e) {
        for (int64_t k = b; k < e; ++k) ++hits[static_cast<size_t>(i * 10 + k)];
      });
    }
  });
  EXPECT_EQ(hits, std::vector<int>(100, 1));
  set_num_threads(1);
}

}  // namespace
}  // namespace downhaul

#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>

namespace downhaul {
namespace {

TEST(ThreadPool, CoversEachIndexOnceWhateverTheThreadsAndChunks) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (const int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (const int64_t chunk : {1, 3, 64, 5000}) {
        std::vector<std::atomic<int>> times(static_cast<size_t>(count));
        std::atomic<bool> worker_in_range = true;
        pool.run(count, chunk, [&](int64_t begin, int64_t end, int worker) {
          if (worker < 0 || worker >= threads) worker_in_range = false;
          for (int64_t i = begin; i < end; ++i) ++times[static_cast<size_t>(i)];
        });
        EXPECT_TRUE(worker_in_range);
        for (const auto& t : times) EXPECT_EQ(t, 1) << threads << " " << count << " " << chunk;
      }
    }
  }
}

TEST(ThreadPool, ManyShortLoopsFollowEachOther) {
  ThreadPool pool(3);
  int64_t total = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> sums(3 * 8);
    pool.run(60, 4, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t i = begin; i < end; ++i) sums[static_cast<size_t>(worker) * 8] += i;
    });
    total += std::accumulate(sums.begin(), sums.end(), int64_t{0});
  }
  EXPECT_EQ(total, 500 * (59 * 60 / 2));
}

}  // namespace
}  // namespace downhaul

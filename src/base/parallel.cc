#include "base/parallel.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace downhaul {
namespace {

int threads = 1;
thread_local bool inside = false;

}  // namespace

void set_num_threads(int n) { threads = std::max(1, n); }
int num_threads() { return threads; }

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  const int64_t pieces =
      inside ? 1 : std::min<int64_t>(threads, count / std::max<int64_t>(grain, 1));
  if (pieces <= 1) {
    if (count > 0) body(0, count);
    return;
  }
  const auto run = [&](int64_t piece) {
    inside = true;
    body(count * piece / pieces, count * (piece + 1) / pieces);
    inside = false;
  };
  std::vector<std::thread> workers;
  for (int64_t p = 1; p < pieces; ++p) workers.emplace_back(run, p);
  run(0);
  for (std::thread& w : workers) w.join();
}

}  // namespace downhaul

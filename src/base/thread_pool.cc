#include "base/thread_pool.h"

#include <algorithm>

#include "base/status.h"

namespace downhaul {
namespace {

// Some 50 us on a server core, where a pause takes about 50 ns: longer than the gap between two
// operators of a model. More would be wasted when another process has the other core.
constexpr int kSpins = 1000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : ranges_(static_cast<size_t>(std::max(1, num_threads))) {
  try {
    for (int w = 1; w < this->num_threads(); ++w) threads_.emplace_back([this, w] { serve(w); });
  } catch (...) {
    end();  // those that began must not outlive what they wait on
    throw;
  }
}

ThreadPool::~ThreadPool() { end(); }

void ThreadPool::end() {
  stop_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::run_all(int64_t count, int64_t chunk, Call call, void* context) {
  DH_CHECK(busy_.load(std::memory_order_relaxed) == 0);
  const auto n = static_cast<int64_t>(ranges_.size());
  for (int64_t w = 0; w < n; ++w) {
    ranges_[static_cast<size_t>(w)].next.store(count * w / n, std::memory_order_relaxed);
    ranges_[static_cast<size_t>(w)].end = count * (w + 1) / n;
  }
  call_ = call;
  context_ = context;
  chunk_ = std::max<int64_t>(chunk, 1);
  busy_.store(static_cast<int>(n) - 1, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work(0);
  int busy = busy_.load(std::memory_order_acquire);
  for (int spins = 0; busy != 0; ++spins) {
    if (spins < kSpins) {
      pause();
    } else {
      busy_.wait(busy, std::memory_order_acquire);
    }
    busy = busy_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work(int worker) {
  const int n = num_threads();
  for (int i = 0; i < n; ++i) {
    Range& range = ranges_[static_cast<size_t>((worker + i) % n)];
    for (;;) {
      if (range.next.load(std::memory_order_relaxed) >= range.end) break;
      const int64_t begin = range.next.fetch_add(chunk_, std::memory_order_relaxed);
      if (begin >= range.end) break;
      call_(context_, begin, std::min(begin + chunk_, range.end), worker);
    }
  }
}

void ThreadPool::serve(int worker) {
  uint32_t seen = 0;
  for (;;) {
    uint32_t now = round_.load(std::memory_order_acquire);
    for (int spins = 0; now == seen; ++spins) {
      if (spins < kSpins) {
        pause();
      } else {
        round_.wait(seen, std::memory_order_acquire);
      }
      now = round_.load(std::memory_order_acquire);
    }
    seen = now;
    if (stop_.load(std::memory_order_relaxed)) return;
    work(worker);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace downhaul

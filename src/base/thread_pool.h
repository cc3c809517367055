#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace downhaul {

/// A fixed set of threads that share loops. The caller of `run` is worker 0; the others wait by
/// spinning a few microseconds, then asleep. Belongs to one caller at a time; `run` does not nest,
/// does not allocate and does not fail.
class ThreadPool {
 public:
  /// At least one thread (the caller).
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(ranges_.size()); }

  /// Calls `body(begin, end, worker)` for pieces of at most `chunk` indices that cover [0, count)
  /// once each; worker is in [0, num_threads()). Every worker begins with a contiguous share of its
  /// own, so that caches stay warm from loop to loop, and then helps the others: a core that is
  /// busy elsewhere does not hold everyone up. `body` must compute each index by itself alone;
  /// then results do not depend on the number of threads.
  template <typename Body>
  void run(int64_t count, int64_t chunk, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    if (count <= 0) return;
    if (ranges_.size() == 1 || count <= chunk) {
      body(int64_t{0}, count, 0);
      return;
    }
    run_all(
        count, chunk,
        [](void* context, int64_t begin, int64_t end, int worker) {
          (*static_cast<Plain*>(context))(begin, end, worker);
        },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Call = void (*)(void* context, int64_t begin, int64_t end, int worker);
  struct alignas(64) Range {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  void end();
  void run_all(int64_t count, int64_t chunk, Call call, void* context);
  void work(int worker);
  void serve(int worker);

  std::vector<Range> ranges_;
  std::vector<std::thread> threads_;
  Call call_ = nullptr;
  void* context_ = nullptr;
  int64_t chunk_ = 1;
  alignas(64) std::atomic<uint32_t> round_{0};
  alignas(64) std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace downhaul

// Feeds a fuzz target with spoiled seeds, the same ones every time: cut at every length, single
// bytes changed at random, and every two- and four-byte field set to values that hurt. A crash ends
// the program; an input that takes too long or too much memory fails it.

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "fuzz.h"

namespace {

constexpr size_t kMaxCutLength = 64u << 10;  // longer seeds are cut at this many lengths at most
constexpr int kByteFlips = 20'000;           // over all seeds
constexpr std::chrono::seconds kMaxTime{5};
constexpr long kMaxExtraKiB = 64 << 10;  // and twice the input

long peak_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMeasureMemory = false;  // the sanitizer's own memory would be measured
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kMeasureMemory = false;
#else
constexpr bool kMeasureMemory = true;
#endif
#else
constexpr bool kMeasureMemory = true;
#endif

class Driver {
 public:
  void run(const std::vector<uint8_t>& bytes, const char* mutation, size_t detail) {
    // An exact copy on the heap, so that the sanitizer sees a read past its end.
    const std::vector<uint8_t> input(bytes);
    const auto start = std::chrono::steady_clock::now();
    LLVMFuzzerTestOneInput(input.data(), input.size());
    const auto took = std::chrono::steady_clock::now() - start;
    ++count_;
    if (took > kMaxTime) fail("took longer than 5 s", mutation, detail);
    const long limit = base_kib_ + kMaxExtraKiB + static_cast<long>(2 * bytes.size() / 1024);
    if (kMeasureMemory && peak_kib() > limit) fail("took too much memory", mutation, detail);
  }

  size_t count() const { return count_; }
  long extra_kib() const { return peak_kib() - base_kib_; }

 private:
  void fail(const char* what, const char* mutation, size_t detail) const {
    std::printf("input %zu (%s %zu) %s\n", count_, mutation, detail, what);
    std::exit(1);
  }

  size_t count_ = 0;
  long base_kib_ = peak_kib();
};

template <typename T>
void set_fields(const std::vector<uint8_t>& seed, std::initializer_list<T> values, Driver& driver) {
  std::vector<uint8_t> bytes = seed;
  for (size_t at = 0; at + sizeof(T) <= seed.size(); at += sizeof(T)) {
    for (const T value : values) {
      std::memcpy(bytes.data() + at, &value, sizeof(T));
      driver.run(bytes, sizeof(T) == 2 ? "two bytes at" : "four bytes at", at);
    }
    std::memcpy(bytes.data() + at, seed.data() + at, sizeof(T));
  }
}

}  // namespace

int main() {
  const std::vector<std::vector<uint8_t>> seeds = fuzz_seeds();
  if (seeds.empty()) {
    std::printf("no seeds\n");
    return 1;
  }
  Driver driver;
  std::mt19937 random(1);
  for (const std::vector<uint8_t>& seed : seeds) {
    if (seed.empty()) {
      std::printf("an empty seed\n");
      return 1;
    }
    driver.run(seed, "seed", seed.size());
    const size_t step = seed.size() / kMaxCutLength + 1;
    for (size_t length = 0; length < seed.size(); length += step) {
      driver.run({seed.begin(), seed.begin() + static_cast<ptrdiff_t>(length)}, "cut at", length);
    }
    for (size_t i = 0; i < kByteFlips / seeds.size(); ++i) {
      std::vector<uint8_t> bytes = seed;
      const size_t at = random() % seed.size();
      bytes[at] = static_cast<uint8_t>(bytes[at] ^ (1 + random() % 255));
      driver.run(bytes, "byte at", at);
    }
    // Zero removes a field of a table, where it stands in a vtable.
    set_fields<uint16_t>(seed, {0, 0xffff}, driver);
    set_fields<uint32_t>(seed, {0, 1, 0x7fffffff, 0x80000000, 0xffffffff}, driver);
  }
  std::printf("%zu inputs, peak memory +%ld KiB\n", driver.count(), driver.extra_kib());
  return 0;
}

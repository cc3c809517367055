// Drives a fuzz target without a fuzzer, the same way every time: each seed cut at every length,
// in short seeds every byte flipped and every field set to numbers that hurt, then seeded changes
// of a few bytes. A crash, a long wait or memory out of proportion fails it. Usage: fuzz_NAME
// [rounds [first_round]]

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>

#include "fuzz_target.h"

namespace {

using Vec = std::vector<uint8_t>;

constexpr int kDefaultRounds = 20000;
// No input of this size may take longer, sanitizers included.
constexpr double kMaxSeconds = 5.0;
// Cutting at every length costs the square of the size: long seeds are cut at some lengths only.
constexpr size_t kMaxCuts = 4000;
// Setting every field is for the small seeds of binary formats.
constexpr size_t kMaxFieldSeed = 4096;
// Memory that an input may take, and twice its size.
constexpr long kMaxExtraKiB = 64 << 10;

// A sanitizer's own memory cannot be told from the reader's.
#if defined(__SANITIZE_ADDRESS__)
#define DH_FUZZ_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DH_FUZZ_SANITIZED 1
#endif
#endif
#ifdef DH_FUZZ_SANITIZED
constexpr bool kMeasureMemory = false;
#else
constexpr bool kMeasureMemory = true;
#endif

long peak_kib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}
long start_kib = 0;

void run(const Vec& input, const char* what, size_t which) {
  // Processor time: a busy machine is not the reader's fault.
  const std::clock_t start = std::clock();
  LLVMFuzzerTestOneInput(input.data(), input.size());
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (seconds > kMaxSeconds) {
    std::fprintf(stderr, "%s %zu took %.1f s\n", what, which, seconds);
    std::exit(1);
  }
  const long extra = peak_kib() - start_kib;
  if (kMeasureMemory && extra > kMaxExtraKiB + static_cast<long>(2 * input.size() / 1024)) {
    std::fprintf(stderr, "%s %zu took %ld KiB\n", what, which, extra);
    std::exit(1);
  }
}

void flip_bytes(const Vec& seed) {
  Vec bytes = seed;
  for (size_t at = 0; at < seed.size(); ++at) {
    for (const uint8_t bits : {0x01, 0x10, 0x80, 0xff}) {
      bytes[at] = seed[at] ^ bits;
      run(bytes, "byte at", at);
    }
    bytes[at] = seed[at];
  }
}

// Zero removes a field of a flatbuffer's table, where it stands in a vtable.
template <typename T>
void set_fields(const Vec& seed, std::initializer_list<T> values, const char* what) {
  Vec bytes = seed;
  for (size_t at = 0; at + sizeof(T) <= seed.size(); at += sizeof(T)) {
    for (const T value : values) {
      std::memcpy(bytes.data() + at, &value, sizeof(T));
      run(bytes, what, at);
    }
    std::memcpy(bytes.data() + at, seed.data() + at, sizeof(T));
  }
}

void mutate(Vec& bytes, std::mt19937_64& random) {
  static constexpr uint8_t kEdges[] = {0x00, 0xff, 0x7f, 0x80, '"', '{', '[', '9', '-'};
  for (uint64_t changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
    const size_t at = random() % bytes.size();
    switch (random() % 4) {
      case 0:
        bytes[at] ^= static_cast<uint8_t>(1u << (random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(random());
        break;
      case 2:
        bytes[at] = kEdges[random() % std::size(kEdges)];
        break;
      default: {
        // A run from elsewhere: names and numbers change places.
        const size_t from = random() % bytes.size();
        const size_t length = 1 + random() % 8;
        for (size_t i = 0; i < length && at + i < bytes.size() && from + i < bytes.size(); ++i) {
          bytes[at + i] = bytes[from + i];
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : kDefaultRounds;
  const int first = argc > 2 ? std::atoi(argv[2]) : 0;
  const std::vector<Vec> seeds = downhaul::fuzz_seeds();
  start_kib = peak_kib();
  for (const Vec& seed : seeds) {
    if (seed.size() <= kMaxFieldSeed) {
      flip_bytes(seed);
      set_fields<uint16_t>(seed, {0, 0xffff}, "two bytes at");
      set_fields<uint32_t>(seed, {1, 0x7fffffff, 0x80000000, 0xffffffff}, "four bytes at");
    }
    const size_t step = 1 + seed.size() / kMaxCuts;
    for (size_t length = 0; length <= seed.size(); length += step) {
      run(Vec(seed.begin(), seed.begin() + static_cast<ptrdiff_t>(length)), "length", length);
    }
  }
  for (int round = first; round < first + rounds; ++round) {
    std::mt19937_64 random(static_cast<uint64_t>(round));
    Vec bytes = seeds[static_cast<size_t>(round) % seeds.size()];
    mutate(bytes, random);
    run(bytes, "round", static_cast<size_t>(round));
  }
  std::printf("%zu seeds, %d rounds\n", seeds.size(), rounds);
}

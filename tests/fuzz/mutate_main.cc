// Drives a fuzz target without a fuzzer, the same way every time: each seed cut at every length,
// in short seeds every byte flipped and every field set to numbers that hurt, then seeded changes
// of a few bytes. A crash, a long wait or memory out of proportion fails it.
//
//   fuzz_NAME [--rounds N] [--first N] [FILE...]   files are further seeds
//   fuzz_NAME --seconds S [--first N] [FILE...]    changed seeds only, for so long
//   fuzz_NAME --first N --write OUT [FILE...]      what round N reads, as a file

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <string_view>

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

// Says which round it was that crashed; sanitizers end in an abort when told to.
volatile int64_t current_round = -1;
void say_round(int) {
  char text[48];
  const int length =
      std::snprintf(text, sizeof(text), "in round %lld\n", static_cast<long long>(current_round));
  (void)!::write(STDERR_FILENO, text, static_cast<size_t>(length));
}

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

// Where to change something. Most of a model is weights, which no reader looks at: what is worth
// changing is text, or the tables at the front.
size_t place(const Vec& bytes, std::mt19937_64& random) {
  constexpr size_t kFront = 32 << 10;
  constexpr size_t kTextRun = 8;
  const uint64_t kind = random() % 3;
  if (kind == 0) return random() % std::min(bytes.size(), kFront);
  size_t at = random() % bytes.size();
  for (int tries = 0; kind == 1 && tries < 32; ++tries) {
    const auto from = bytes.begin() + static_cast<ptrdiff_t>(at);
    const auto to = from + static_cast<ptrdiff_t>(std::min(kTextRun, bytes.size() - at));
    if (std::all_of(from, to, [](uint8_t b) { return b >= 0x20 && b < 0x7f; })) break;
    at = random() % bytes.size();
  }
  return at;
}

// The number in the text at or after `at` becomes another one of as many digits.
void change_number(Vec& bytes, size_t at, std::mt19937_64& random) {
  const auto is_digit = [&](size_t i) { return bytes[i] >= '0' && bytes[i] <= '9'; };
  for (size_t tries = 0; tries < 200 && at < bytes.size() && !is_digit(at); ++tries) ++at;
  const bool negative = random() % 4 == 0;
  const bool nines = random() % 4 == 0;
  for (bool first = true; at < bytes.size() && is_digit(at); ++at, first = false) {
    const bool sign = first && negative && at + 1 < bytes.size() && is_digit(at + 1);
    bytes[at] = sign ? '-' : nines ? '9' : static_cast<uint8_t>('0' + random() % 10);
  }
}

void mutate(Vec& bytes, std::mt19937_64& random) {
  static constexpr uint8_t kEdges[] = {0x00, 0xff, 0x7f, 0x80, '"', '{', '[', '9', '-'};
  for (uint64_t changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
    const size_t at = place(bytes, random);
    switch (random() % 5) {
      case 0:
        bytes[at] ^= static_cast<uint8_t>(1u << (random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(random());
        break;
      case 2:
        bytes[at] = kEdges[random() % std::size(kEdges)];
        break;
      case 3:
        change_number(bytes, at, random);
        break;
      default: {
        // A run from elsewhere: names and numbers change places.
        const size_t from = place(bytes, random);
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
  int64_t rounds = kDefaultRounds;
  int64_t first = 0;
  double seconds = 0;
  const char* write_to = nullptr;
  std::vector<Vec> seeds = downhaul::fuzz_seeds();
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::atof(argv[++i]) : 0; };
    if (option == "--rounds") {
      rounds = static_cast<int64_t>(number());
    } else if (option == "--first") {
      first = static_cast<int64_t>(number());
    } else if (option == "--seconds") {
      seconds = number();
    } else if (option == "--write" && i + 1 < argc) {
      write_to = argv[++i];
    } else {
      const auto file = downhaul::MappedFile::open(argv[i]);
      DH_CHECK(file.ok());
      seeds.emplace_back((*file)->bytes().begin(), (*file)->bytes().end());
    }
  }
  const auto changed = [&](int64_t round) {
    std::mt19937_64 random(static_cast<uint64_t>(round));
    Vec bytes = seeds[static_cast<size_t>(round) % seeds.size()];
    mutate(bytes, random);
    return bytes;
  };
  if (write_to != nullptr) {
    return downhaul::write_file(write_to, changed(first)).ok() ? 0 : 1;
  }
  std::signal(SIGABRT, say_round);
  start_kib = peak_kib();
  for (const Vec& seed : seeds) {
    if (seconds > 0) break;
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
  const std::time_t begin = std::time(nullptr);
  int64_t round = first;
  const auto goes_on = [&] {
    if (seconds == 0) return round < first + rounds;
    return std::difftime(std::time(nullptr), begin) < seconds;
  };
  for (; goes_on(); ++round) {
    current_round = round;
    run(changed(round), "round", static_cast<size_t>(round));
  }
  std::printf("%zu seeds, %lld rounds\n", seeds.size(), static_cast<long long>(round - first));
}

#include "kernels/isa.h"

#include <atomic>
#include <cstdlib>
#include <fstream>

#include "base/strings.h"
#include "kernels/targets.h"
// The order matters: targets.h decides which of them exist.
#include "hwy/highway.h"

namespace downhaul {
namespace {

struct Row {
  Isa isa;
  std::string_view name;
  int64_t target;  // Highway's bit
};

#if defined(__x86_64__)
constexpr Row kRows[] = {{Isa::kBaseline, "baseline", HWY_STATIC_TARGET},
                         {Isa::kAvx2, "avx2", HWY_AVX2},
                         {Isa::kAvx512, "avx512", HWY_AVX3}};
#elif defined(__aarch64__)
constexpr Row kRows[] = {{Isa::kBaseline, "neon", HWY_NEON}};
#else
constexpr Row kRows[] = {{Isa::kBaseline, "baseline", HWY_STATIC_TARGET}};
#endif

Isa highest() {
  const int64_t have = hwy::SupportedTargets();
  Isa best = Isa::kBaseline;
  for (const Row& row : kRows) {
    if (row.isa == Isa::kBaseline || (have & row.target) != 0) best = row.isa;
  }
  return best;
}

std::atomic<Isa>& active() {
  static std::atomic<Isa> isa = supported_isas().back();
  return isa;
}

void choose(Isa isa) {
  active() = isa;
  int64_t mask = 0;
  for (const Row& row : kRows) {
    if (row.isa <= isa) mask |= row.target;
  }
  hwy::SetSupportedTargetsForTest(mask);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

std::string_view name(Isa isa) {
  for (const Row& row : kRows) {
    if (row.isa == isa) return row.name;
  }
  return "none";
}

std::vector<Isa> supported_isas() {
  static const Isa top = highest();  // asked for before any choice hides some
  std::vector<Isa> isas;
  for (const Row& row : kRows) {
    if (row.isa <= top) isas.push_back(row.isa);
  }
  return isas;
}

Isa active_isa() { return active(); }

Status lower_isa(std::string_view wanted) {
  std::vector<std::string> names;
  for (const Isa isa : supported_isas()) {
    if (name(isa) == wanted) {
      choose(isa);
      return {};
    }
    names.emplace_back(name(isa));
  }
  return invalid_argument(
      cat("instruction set '", printable(wanted), "': this CPU has ", join(names, ", ")));
}

Status lower_isa_by_environment() {
  const char* wanted = std::getenv("DOWNHAUL_ISA");
  if (wanted == nullptr || *wanted == '\0') return {};
  return lower_isa(wanted).with_context("DOWNHAUL_ISA");
}

ScopedIsa::ScopedIsa(Isa isa) : before_(active()) { choose(isa); }
ScopedIsa::~ScopedIsa() { choose(before_); }

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      const size_t colon = line.find(':');
      if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
    }
  }
#if defined(__aarch64__)
  return "AArch64";
#else
  return "x86-64";
#endif
}

}  // namespace downhaul

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

/// Which instruction set the kernels use. Detected once; lowered by DOWNHAUL_ISA.
namespace downhaul {

enum class Isa {
  kBaseline,  ///< what the build may assume: SSE2 on x86-64, NEON on AArch64
  kAvx2,      ///< AVX2 with FMA
  kAvx512,    ///< AVX-512 F, BW, CD, DQ, VL
};

/// "baseline", "avx2", "avx512" on x86-64; "neon" on AArch64.
std::string_view name(Isa isa);
/// Those that this CPU has, lowest first.
std::vector<Isa> supported_isas();
/// In use now: the highest supported one, unless lowered.
Isa active_isa();
/// Lowers the choice for kernels called from now on. Errors: kInvalidArgument for a name that does
/// not exist or that this CPU lacks, naming those it has.
Status lower_isa(std::string_view name);
/// lower_isa by the environment variable DOWNHAUL_ISA, when set.
Status lower_isa_by_environment();

/// For tests: one choice for as long as it lives.
class ScopedIsa {
 public:
  explicit ScopedIsa(Isa isa);
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  Isa before_;
};

/// "AMD EPYC 9B14" as the system names it, or the architecture.
std::string cpu_name();

}  // namespace downhaul

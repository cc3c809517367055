// Include before "hwy/foreach_target.h" and "hwy/highway.h": the Highway targets that kernels are
// compiled for. One per register width that matters; each more costs compile time and size.
#pragma once

// The numbers are targets of later Highway releases (AVX3_SPR, AVX10_2, AVX3_ZEN4), which earlier
// ones have no names for. Accumulator tiles are local arrays of vectors, which do not compile for
// the scalable vectors of SVE and RVV.
#define HWY_DISABLED_TARGETS                                                              \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | \
   HWY_RVV | (1LL << 4) | (1LL << 5) | (1LL << 6))

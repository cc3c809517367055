#pragma once

/// What this machine can do at most, measured: the yardstick of benches.
namespace downhaul::kernels {

/// GFLOP/s of one thread that does nothing but multiply-add in registers, two operations each, with
/// the ISA in use. Takes about 20 ms.
double measure_fma_peak();

/// GB/s that `threads` threads together read from memory: best of several passes over 192 MiB, more
/// than the caches hold. Takes about 100 ms.
double measure_read_bandwidth(int threads);

}  // namespace downhaul::kernels

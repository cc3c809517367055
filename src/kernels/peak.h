#pragma once

/// What this machine can do at most, measured: the yardstick of benches.
namespace downhaul::kernels {

/// GFLOP/s of one thread that does nothing but multiply-add in registers, two operations each, with
/// the ISA in use. Takes about 20 ms.
double measure_fma_peak();

}  // namespace downhaul::kernels

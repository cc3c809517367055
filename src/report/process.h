#pragma once

#include <cstdint>
#include <optional>

/// What the kernel says about this process.
namespace downhaul {

/// Bytes of resident memory; nullopt where the system does not tell.
struct ResidentMemory {
  uint64_t now = 0;
  uint64_t peak = 0;          ///< since the start, or since the last reset
  uint64_t mapped_files = 0;  ///< of `now`: pages of files, which the system may drop
};
std::optional<ResidentMemory> resident_memory();

/// Gives freed memory back to the system and lets `peak` count from here; false where the system
/// does not allow that (then the peak is the one since the start).
bool reset_peak_memory();

/// Milliseconds that the live threads of this process have waited for a core since they started,
/// ready to run; nullopt where the system does not tell.
std::optional<double> core_wait_ms();

}  // namespace downhaul

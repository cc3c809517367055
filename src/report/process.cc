#include "report/process.h"

#include <malloc.h>
#include <sys/resource.h>

#include <fstream>
#include <sstream>
#include <string>

namespace downhaul {

std::optional<ResidentMemory> resident_memory() {
  std::ifstream status("/proc/self/status");
  ResidentMemory out;
  int found = 0;
  for (std::string line; std::getline(status, line);) {
    std::istringstream fields(line);
    std::string key;
    uint64_t kib = 0;
    fields >> key >> kib;
    if (key == "VmHWM:") out.peak = kib * 1024, ++found;
    if (key == "VmRSS:") out.now = kib * 1024, ++found;
    if (key == "RssFile:") out.mapped_files = kib * 1024, ++found;
  }
  if (found != 3) return std::nullopt;
  return out;
}

int64_t preemptions() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

bool reset_peak_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  std::ofstream control("/proc/self/clear_refs");
  control << "5";  // "reset the peak resident set size", proc(5)
  control.close();
  return !control.fail();
}

}  // namespace downhaul

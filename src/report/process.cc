#include "report/process.h"

#include <malloc.h>

#include <filesystem>
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

std::optional<double> core_wait_ms() {
  std::error_code error;
  std::filesystem::directory_iterator tasks("/proc/self/task", error);
  if (error) return std::nullopt;
  double sum = 0;
  for (const auto& task : tasks) {
    std::ifstream schedule(task.path() / "schedstat");
    double ran = 0, waited = 0;  // nanoseconds
    if (!(schedule >> ran >> waited)) return std::nullopt;
    sum += waited * 1e-6;
  }
  return sum;
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

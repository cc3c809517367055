#include "cli/version.h"

#include "base/strings.h"

namespace downhaul {

const char* version() { return DOWNHAUL_VERSION; }
const char* build_type() { return DOWNHAUL_BUILD_TYPE; }

std::string version_line() {
#if defined(__clang__)
  constexpr const char* kCompiler = "Clang " __clang_version__;
#else
  constexpr const char* kCompiler = "GCC " __VERSION__;
#endif
  return cat("downhaul ", version(), " (", build_type(), " build, ", kCompiler, ")");
}

}  // namespace downhaul

#pragma once

#include <string>

namespace downhaul {

/// "0.1.0": of the project.
const char* version();
/// "Release": what timings depend on.
const char* build_type();
/// Version, build type and compiler in one line.
std::string version_line();

}  // namespace downhaul

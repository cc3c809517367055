#include "base/status.h"

#include <cstdio>

namespace downhaul::internal {

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "downhaul: internal error at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace downhaul::internal

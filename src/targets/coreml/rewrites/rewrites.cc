#include "targets/coreml/rewrites/rewrites.h"

namespace downhaul::coreml {

std::vector<const Rewrite*> rewrites() {
  return {
#define DH_REWRITE(symbol) &symbol,
#include "targets/coreml/rewrites/rewrites.inc"
#undef DH_REWRITE
  };
}

}  // namespace downhaul::coreml

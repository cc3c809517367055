#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

namespace {
constexpr const Rewrite* kAll[] = {
#define DH_REWRITE(symbol) &symbol,
#include "targets/xnnpack/rewrites/rewrites.inc"
#undef DH_REWRITE
};
}  // namespace

std::span<const Rewrite* const> legalizing_rewrites() { return kAll; }

}  // namespace downhaul::xnnpack

#include "ops/ops.h"

#include <algorithm>

#include "ops/cached.h"

namespace downhaul {

namespace {

constexpr const OpDef* kAllOps[] = {
#define DH_OP(symbol) &ops::symbol,
#include "ops/cached.inc"
#include "ops/ops.inc"
#undef DH_OP
};

}  // namespace

std::span<const OpDef* const> all_ops() { return kAllOps; }

const OpDef* find_op(std::string_view name) {
  // ~110 short names: a walk costs less than keeping an index.
  const auto* found = std::find_if(std::begin(kAllOps), std::end(kAllOps),
                                   [=](const OpDef* op) { return name == op->name; });
  return found == std::end(kAllOps) ? nullptr : *found;
}

}  // namespace downhaul

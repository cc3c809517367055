#include "ops/dispatch.h"

#include <utility>

namespace downhaul {

WideCall::WideCall(RefCall& call, DType from, DType to)
    : original_(call), wide_{call.node, call.operands, call.bindings, {}} {
  copies_.reserve(call.operands.size());
  for (const Tensor*& t : wide_.operands) {
    if (t == nullptr || t->dtype() != from) continue;
    copies_.push_back(t->cast(to));
    t = &copies_.back();
  }
  for (const Tensor& r : call.results) {
    wide_.results.push_back(r.dtype() == from ? Tensor(to, r.sizes()) : r);
  }
}

void WideCall::finish() {
  for (size_t i = 0; i < wide_.results.size(); ++i) {
    original_.results[i] = wide_.results[i].cast(original_.results[i].dtype());
  }
}

}  // namespace downhaul

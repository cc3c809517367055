#include <algorithm>

#include "base/status.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/kernel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/gated.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// One packed panel: its bias as it is, row k times gate[k].
void gate_panel(const float* HWY_RESTRICT panel, const float* HWY_RESTRICT gate, int64_t k,
                float* HWY_RESTRICT to) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < kPanel; j += lanes) {
    hn::StoreU(hn::LoadU(d, panel + j), d, to + j);
  }
  for (int64_t i = 0; i < k; ++i) {
    panel += kPanel;
    to += kPanel;
    const auto factor = hn::Set(d, gate[i]);
    for (int64_t j = 0; j < kPanel; j += lanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, panel + j), factor), d, to + j);
    }
  }
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
namespace {

HWY_EXPORT(gate_panel);

/// Weights below which another thread is not worth waking.
constexpr int64_t kGrain = 16384;

}  // namespace

bool can_gate(const ConvPlan& plan) {
  return plan.kernel == &kConvPointwise && plan.conv.in.batch == 1;
}

bool is_gating_faster(const ConvPlan& plan) {
  // The weights are read and written instead of the image.
  return can_gate(plan) && plan.conv.channels_out < plan.conv.in.height * plan.conv.in.width;
}

void gate_weights(const ConvPlan& plan, const float* packed, const float* gate, float* gated,
                  ThreadPool& pool) {
  DH_CHECK(can_gate(plan));
  const auto run = HWY_DYNAMIC_DISPATCH(gate_panel);
  const int64_t k = plan.conv.in.channels;
  const int64_t panel = (k + 1) * kPanel;
  pool.run((plan.conv.channels_out + kPanel - 1) / kPanel, std::max<int64_t>(1, kGrain / panel),
           [&](int64_t begin, int64_t end, int) {
             for (int64_t p = begin; p < end; ++p) {
               run(packed + p * panel, gate, k, gated + p * panel);
             }
           });
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

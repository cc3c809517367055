#include "kernels/gemm/pack.h"

#include <algorithm>
#include <cstring>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/pack.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// dst[k * kPanel + j] = src[j * stride + k] for 4 columns j, k in [0, depth).
HWY_INLINE void transpose_4(const float* src, int64_t stride, int64_t depth, float* dst) {
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> dw;
  for (; k + 4 <= depth; k += 4) {
    const auto a = hn::LoadU(d, src + k);
    const auto b = hn::LoadU(d, src + stride + k);
    const auto c = hn::LoadU(d, src + 2 * stride + k);
    const auto e = hn::LoadU(d, src + 3 * stride + k);
    const auto ab_low = hn::BitCast(dw, hn::InterleaveLower(d, a, b));
    const auto ab_high = hn::BitCast(dw, hn::InterleaveUpper(d, a, b));
    const auto ce_low = hn::BitCast(dw, hn::InterleaveLower(d, c, e));
    const auto ce_high = hn::BitCast(dw, hn::InterleaveUpper(d, c, e));
    float* to = dst + k * kPanel;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, ab_low, ce_low)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, ab_low, ce_low)), d, to + kPanel);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(dw, ab_high, ce_high)), d, to + 2 * kPanel);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(dw, ab_high, ce_high)), d, to + 3 * kPanel);
  }
#endif
  for (; k < depth; ++k) {
    for (int64_t j = 0; j < 4; ++j) dst[k * kPanel + j] = src[j * stride + k];
  }
}

/// dst[k * kPanel + j] = src[j * stride + k] for `columns` columns j.
void transpose(const float* src, int64_t stride, int64_t columns, int64_t depth, float* dst) {
  // A strip of k at a time, so that what is written stays in the first cache until its lines are
  // full.
  constexpr int64_t kStrip = 64;
  for (int64_t k = 0; k < depth; k += kStrip) {
    const int64_t count = HWY_MIN(kStrip, depth - k);
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4) {
      transpose_4(src + j * stride + k, stride, count, dst + k * kPanel + j);
    }
    for (; j < columns; ++j) {
      for (int64_t i = k; i < k + count; ++i) dst[i * kPanel + j] = src[j * stride + i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
HWY_EXPORT(transpose);
namespace {

/// One run of k, whose values are k_stride apart.
void pack_run(const float* src, const BSource& b, int64_t columns, int64_t depth, float* dst) {
  if (columns < kPanel) std::memset(dst, 0, static_cast<size_t>(depth * kPanel) * sizeof(float));
  if (b.k_stride == 1 && b.n_stride != 1) {
    HWY_DYNAMIC_DISPATCH(transpose)(src, b.n_stride, columns, depth, dst);
    return;
  }
  for (int64_t k = 0; k < depth; ++k) {
    const float* row = src + k * b.k_stride;
    float* to = dst + k * kPanel;
    if (b.n_stride == 1) {
      std::memcpy(to, row, static_cast<size_t>(columns) * sizeof(float));
    } else {
      for (int64_t j = 0; j < columns; ++j) to[j] = row[j * b.n_stride];
    }
  }
}

}  // namespace

void pack_columns(const BSource& b, int64_t n, int64_t depth, int64_t first, float* dst) {
  const int64_t columns = std::min(kPanel, n - first);
  const float* src = b.data + first * b.n_stride;
  const int64_t run = b.run > 0 ? b.run : depth;
  for (int64_t k = 0; k < depth; k += run) {
    pack_run(src, b, columns, std::min(run, depth - k), dst + k * kPanel);
    src += b.tap_stride;
  }
}

size_t packed_b_bytes(int64_t n, int64_t k) {
  return static_cast<size_t>((n + kPanel - 1) / kPanel * kPanel * (k + 1)) * sizeof(float);
}

void pack_b_panels(const BSource& b, int64_t n, int64_t k, const float* bias, int64_t first,
                   int64_t last, float* dst) {
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t column = panel * kPanel;
    float* to = dst + column * (k + 1);
    for (int64_t j = 0; j < kPanel; ++j) {
      to[j] = bias != nullptr && column + j < n ? bias[column + j] : 0.0f;
    }
    pack_columns(b, n, k, column, to + kPanel);
  }
}

void pack_b(const BSource& b, int64_t n, int64_t k, const float* bias, float* dst,
            ThreadPool& pool) {
  const int64_t panels = (n + kPanel - 1) / kPanel;
  // Small matrices are not worth waking a thread.
  const int64_t chunk = std::max<int64_t>(1, (int64_t{1} << 14) / (kPanel * (k + 1)));
  pool.run(panels, chunk,
           [&](int64_t begin, int64_t end, int) { pack_b_panels(b, n, k, bias, begin, end, dst); });
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

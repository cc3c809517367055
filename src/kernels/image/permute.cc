#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "kernels/image/image.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/image/permute.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// to[i·16 + j] = from[j·from_stride + i] for i, j < 16: one cache line of each row.
void transpose_16x16(const float* HWY_RESTRICT from, int64_t from_stride, float* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t j = 0; j < 16; ++j) {
    for (int64_t i = 0; i < 16; ++i) to[i * 16 + j] = from[j * from_stride + i];
  }
#else
  const hn::CappedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> wide;
  // All quarters of four source rows, then the next four: no row is visited twice.
  for (int64_t j = 0; j < 16; j += 4) {
    const float* rows = from + j * from_stride;
    for (int64_t i = 0; i < 16; i += 4) {
      const auto a = hn::LoadU(d, rows + i);
      const auto b = hn::LoadU(d, rows + from_stride + i);
      const auto c = hn::LoadU(d, rows + 2 * from_stride + i);
      const auto e = hn::LoadU(d, rows + 3 * from_stride + i);
      const auto ab_low = hn::BitCast(wide, hn::InterleaveLower(d, a, b));
      const auto ab_high = hn::BitCast(wide, hn::InterleaveUpper(d, a, b));
      const auto ce_low = hn::BitCast(wide, hn::InterleaveLower(d, c, e));
      const auto ce_high = hn::BitCast(wide, hn::InterleaveUpper(d, c, e));
      float* block = to + i * 16 + j;
      hn::Store(hn::BitCast(d, hn::InterleaveLower(wide, ab_low, ce_low)), d, block);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(wide, ab_low, ce_low)), d, block + 16);
      hn::Store(hn::BitCast(d, hn::InterleaveLower(wide, ab_high, ce_high)), d, block + 32);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(wide, ab_high, ce_high)), d, block + 48);
    }
  }
#endif
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
namespace {

HWY_EXPORT(transpose_16x16);

/// Elements below which another thread is not worth waking.
constexpr int64_t kGrain = 8192;
constexpr int64_t kTile = 16;

int64_t tasks_per_grain(int64_t elements) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, elements));
}

/// Offsets in `from` and `to` of the index-th element of dimensions [0, rank) except `skip`.
std::pair<int64_t, int64_t> offsets(const PermutePlan& plan, int rank, int skip, int64_t index) {
  int64_t from = 0;
  int64_t to = 0;
  for (int d = rank - 1; d >= 0; --d) {
    if (d == skip) continue;
    const auto i = static_cast<size_t>(d);
    const int64_t at = index % plan.sizes[i];
    index /= plan.sizes[i];
    from += at * plan.from[i];
    to += at * plan.to[i];
  }
  return {from, to};
}

/// A tile of at most 16 x 16: to[i·to_stride + j] = from[j·from_stride + i].
template <typename T, typename Transpose>
void transpose_tile(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
                    int64_t to_stride, Transpose transpose) {
  if constexpr (sizeof(T) == sizeof(float)) {
    alignas(64) float whole[kTile * kTile];
    alignas(64) float turned[kTile * kTile];
    const auto* source = reinterpret_cast<const float*>(from);
    if (rows != kTile || columns != kTile) {
      // Only what there is may be read; the rest of the tile is never written.
      for (int64_t j = 0; j < columns; ++j) {
        std::memcpy(whole + j * kTile, from + j * from_stride, static_cast<size_t>(rows) * 4);
      }
      for (int64_t j = columns; j < kTile; ++j) std::fill_n(whole + j * kTile, kTile, 0.0F);
      source = whole;
      from_stride = kTile;
    }
    transpose(source, from_stride, turned);
    if (columns == kTile) {
      for (int64_t i = 0; i < rows; ++i) {
        std::memcpy(to + i * to_stride, turned + i * kTile, kTile * sizeof(float));
      }
    } else {
      for (int64_t i = 0; i < rows; ++i) {
        std::memcpy(to + i * to_stride, turned + i * kTile, static_cast<size_t>(columns) * 4);
      }
    }
  } else {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) to[i * to_stride + j] = from[j * from_stride + i];
    }
  }
}

template <typename T>
void permute_as(const PermutePlan& plan, const T* from, T* to, ThreadPool& pool) {
  const int last = plan.rank - 1;
  const auto l = static_cast<size_t>(last);
  const int64_t width = plan.sizes[l];
  int64_t outer = 1;
  for (int d = 0; d < last; ++d) outer *= plan.sizes[static_cast<size_t>(d)];
  if (plan.across >= 0) {
    const auto a = static_cast<size_t>(plan.across);
    const int64_t height = plan.sizes[a];
    const int64_t bands = (height + kTile - 1) / kTile;
    // Columns are cut too: a wide matrix of few rows is work for several threads.
    const int64_t cut = std::max<int64_t>(kTile, kGrain / kTile);
    const int64_t cuts = (width + cut - 1) / cut;
    const auto transpose = HWY_DYNAMIC_DISPATCH(transpose_16x16);
    pool.run(outer / height * bands * cuts, tasks_per_grain(kTile * std::min(width, cut)),
             [&](int64_t begin, int64_t end, int) {
               for (int64_t task = begin; task < end; ++task) {
                 const int64_t row = task % bands * kTile;
                 const int64_t first = task / bands % cuts * cut;
                 const auto [source, target] =
                     offsets(plan, last, plan.across, task / (bands * cuts));
                 const int64_t rows = std::min(kTile, height - row);
                 for (int64_t j = first; j < std::min(first + cut, width); j += kTile) {
                   transpose_tile(from + source + row + j * plan.from[l], plan.from[l], rows,
                                  std::min(kTile, width - j), to + target + row * plan.to[a] + j,
                                  plan.to[a], transpose);
                 }
               }
             });
    return;
  }
  pool.run(outer, tasks_per_grain(width), [&](int64_t begin, int64_t end, int) {
    for (int64_t task = begin; task < end; ++task) {
      const auto [source, target] = offsets(plan, last, -1, task);
      const T* row = from + source;
      T* result = to + target;
      if (plan.from[l] == 1 && plan.to[l] == 1) {
        std::memcpy(result, row, static_cast<size_t>(width) * sizeof(T));
      } else {
        for (int64_t i = 0; i < width; ++i) result[i * plan.to[l]] = row[i * plan.from[l]];
      }
    }
  });
}

}  // namespace

PermutePlan plan_permute(int rank, const int64_t* sizes, const int64_t* from, const int64_t* to,
                         int64_t element_size) {
  DH_CHECK(rank >= 0 && rank <= PermutePlan::kMaxRank);
  struct Dimension {
    int64_t size, from, to;
  };
  std::array<Dimension, PermutePlan::kMaxRank> dims;
  size_t count = 0;
  bool empty = false;
  for (int d = 0; d < rank; ++d) {
    empty = empty || sizes[d] == 0;
    if (sizes[d] != 1) dims[count++] = {sizes[d], from[d], to[d]};
  }
  // Results are written in order.
  std::stable_sort(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(count),
                   [](const Dimension& a, const Dimension& b) { return a.to > b.to; });
  size_t joined = 0;
  for (size_t d = 0; d < count; ++d) {
    Dimension* before = joined == 0 ? nullptr : &dims[joined - 1];
    if (before != nullptr && before->from == dims[d].from * dims[d].size &&
        before->to == dims[d].to * dims[d].size) {
      *before = {before->size * dims[d].size, dims[d].from, dims[d].to};
    } else {
      dims[joined++] = dims[d];
    }
  }
  if (joined == 0) dims[joined++] = {1, 1, 1};
  PermutePlan plan;
  plan.rank = static_cast<int>(joined);
  plan.element_size = element_size;
  for (size_t d = 0; d < joined; ++d) {
    plan.sizes[d] = empty ? 0 : dims[d].size;
    plan.from[d] = dims[d].from;
    plan.to[d] = dims[d].to;
  }
  const size_t last = joined - 1;
  if (!empty && plan.to[last] == 1 && plan.from[last] != 1 && plan.from[last] != 0) {
    for (size_t d = 0; d < last; ++d) {
      if (plan.from[d] == 1) plan.across = static_cast<int>(d);
    }
  }
  return plan;
}

PermutePlan plan_permute_dims(int rank, const int64_t* in_sizes, const int64_t* order,
                              int64_t element_size) {
  DH_CHECK(rank >= 0 && rank <= PermutePlan::kMaxRank);
  std::array<int64_t, PermutePlan::kMaxRank> in_strides{}, sizes{}, from{}, to{};
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    in_strides[static_cast<size_t>(d)] = stride;
    stride *= in_sizes[d];
  }
  stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    sizes[i] = in_sizes[order[d]];
    from[i] = in_strides[static_cast<size_t>(order[d])];
    to[i] = stride;
    stride *= sizes[i];
  }
  return plan_permute(rank, sizes.data(), from.data(), to.data(), element_size);
}

void permute(const PermutePlan& plan, const void* from, void* to, ThreadPool& pool) {
  if (plan.sizes[0] == 0) return;
  switch (plan.element_size) {
    case 1:
      return permute_as(plan, static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to), pool);
    case 2:
      return permute_as(plan, static_cast<const uint16_t*>(from), static_cast<uint16_t*>(to), pool);
    case 4:
      return permute_as(plan, static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to), pool);
    case 8:
      return permute_as(plan, static_cast<const uint64_t*>(from), static_cast<uint64_t*>(to), pool);
    default:
      DH_CHECK(false);
  }
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

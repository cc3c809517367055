#include "kernels/rows/reduce_f32.h"

#include <algorithm>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/reduce_f32.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of what follows.
#include "hwy/highway.h"
#include "kernels/math-inl.h"
#include "kernels/rows/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

/// Elements that are summed in f32, those sums in f64.
constexpr int64_t kRun = 4096;
/// Rows that are.
constexpr int64_t kRows = 16;

double sum_run(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t at = 0; at < n; at += kRun) {
    const float* p = x + at;
    sum += static_cast<double>(sum_row(std::min(kRun, n - at),
                                       [=](auto d, size_t i, size_t k)
                                           HWY_ATTR { return load_some(d, p + i, k); }));
  }
  return sum;
}

double squares_run(const float* x, float center, int64_t n) {
  double sum = 0;
  for (int64_t at = 0; at < n; at += kRun) {
    const float* p = x + at;
    sum += static_cast<double>(
        sum_row(std::min(kRun, n - at), [=](auto d, size_t i, size_t k) HWY_ATTR {
          const auto v = hn::Sub(load_some(d, p + i, k), hn::Set(d, center));
          return first_some(d, hn::Mul(v, v), k);
        }));
  }
  return sum;
}

struct Larger {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return vec_maximum(d, a, b);
  }
};
struct Smaller {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return vec_minimum(d, a, b);
  }
};

/// The better of `best` and n elements, four vectors side by side.
template <class Better>
HWY_INLINE float best_run(float best, const float* x, int64_t n, Better better) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Set(d, best);
  auto b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = better(d, a, hn::LoadU(d, x + i));
    b = better(d, b, hn::LoadU(d, x + i + lanes));
  }
  for (; i < n; i += lanes) {
    const auto k = static_cast<size_t>(std::min(lanes, n - i));
    const auto v = load_some(d, x + i, k);
    // Elements behind the last are replaced by one that is there already.
    a = better(d, a, k == hn::Lanes(d) ? v : hn::IfThenElse(hn::FirstN(d, k), v, a));
  }
  HWY_ALIGN float values[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(better(d, a, b), d, values);
  const hn::CappedTag<float, 1> one;
  auto top = hn::Set(one, values[0]);
  for (int64_t j = 1; j < lanes; ++j) top = better(one, top, hn::Set(one, values[j]));
  return hn::GetLane(top);
}

float largest_run(float best, const float* x, int64_t n) { return best_run(best, x, n, Larger()); }
float smallest_run(float best, const float* x, int64_t n) {
  return best_run(best, x, n, Smaller());
}

int64_t find_run(const float* x, float value, int64_t n) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, value);
  const bool nan = value != value;
  for (int64_t i = 0; i < n; i += lanes) {
    const auto k = static_cast<size_t>(std::min(lanes, n - i));
    const auto v = load_some(d, x + i, k);
    auto hit = nan ? hn::IsNaN(v) : hn::Eq(v, wanted);
    if (k < hn::Lanes(d)) hit = hn::And(hit, hn::FirstN(d, k));
    const auto at = hn::FindFirstTrue(d, hit);
    if (at >= 0) return i + static_cast<int64_t>(at);
  }
  return n;
}

void sum_columns(const float* x, int64_t stride, int64_t rows, int64_t columns, double* sums) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float part[HWY_MAX_BYTES / sizeof(float)];
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t last = std::min(first + kRows, rows);
    for (int64_t c = 0; c < columns; c += lanes) {
      const auto k = static_cast<size_t>(std::min(lanes, columns - c));
      auto sum = hn::Zero(d);
      for (int64_t r = first; r < last; ++r) {
        sum = hn::Add(sum, load_some(d, x + r * stride + c, k));
      }
      hn::Store(sum, d, part);
      for (size_t j = 0; j < k; ++j)
        sums[c + static_cast<int64_t>(j)] += static_cast<double>(part[j]);
    }
  }
}

template <class Better>
HWY_INLINE void best_columns(const float* x, int64_t stride, int64_t rows, int64_t columns,
                             float* best, Better better) {
  const hn::CappedTag<float, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < columns; c += lanes) {
    const auto k = static_cast<size_t>(std::min(lanes, columns - c));
    auto top = load_some(d, best + c, k);
    for (int64_t r = 0; r < rows; ++r) top = better(d, top, load_some(d, x + r * stride + c, k));
    store_some(top, d, best + c, k);
  }
}
void largest_columns(const float* x, int64_t stride, int64_t rows, int64_t columns, float* best) {
  best_columns(x, stride, rows, columns, best, Larger());
}
void smallest_columns(const float* x, int64_t stride, int64_t rows, int64_t columns, float* best) {
  best_columns(x, stride, rows, columns, best, Smaller());
}

RunKernels get_run_kernels() { return {sum_run, squares_run, largest_run, smallest_run, find_run}; }
ColumnKernels get_column_kernels() { return {sum_columns, largest_columns, smallest_columns}; }

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {

HWY_EXPORT(get_run_kernels);
HWY_EXPORT(get_column_kernels);

RunKernels run_kernels() { return HWY_DYNAMIC_DISPATCH(get_run_kernels)(); }
ColumnKernels column_kernels() { return HWY_DYNAMIC_DISPATCH(get_column_kernels)(); }

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

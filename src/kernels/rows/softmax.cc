#include "kernels/rows/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/softmax.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of what follows.
#include "hwy/highway.h"
#include "kernels/math-inl.h"
#include "kernels/rows/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

/// The largest element; what it is with NaN in the row does not matter, as the sum of exponentials
/// is NaN then.
HWY_INLINE float max_of(const float* x, int64_t width) {
  const hn::CappedTag<float, 16> d;
  const size_t lanes = hn::Lanes(d);
  const auto size = static_cast<size_t>(width);
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto a = lowest;
  auto b = lowest;
  size_t i = 0;
  for (; i + 2 * lanes <= size; i += 2 * lanes) {
    a = hn::Max(a, hn::LoadU(d, x + i));
    b = hn::Max(b, hn::LoadU(d, x + i + lanes));
  }
  for (; i < size; i += lanes) {
    const size_t n = HWY_MIN(lanes, size - i);
    const auto v = load_some(d, x + i, n);
    a = hn::Max(a, n == lanes ? v : hn::IfThenElse(hn::FirstN(d, n), v, lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

/// Σ exp(x - top) with top the maximum; keeps the exponentials when `kept` is given.
HWY_INLINE float sum_of_exp(const float* x, float top, int64_t width, float* kept) {
  if (kept != nullptr) {
    return sum_row(width, [=](auto d, size_t i, size_t n) HWY_ATTR {
      const auto e = vec_exp_nonpositive(d, hn::Sub(load_some(d, x + i, n), hn::Set(d, top)));
      store_some(e, d, kept + i, n);
      return first_some(d, e, n);
    });
  }
  return sum_row(width, [=](auto d, size_t i, size_t n) HWY_ATTR {
    const auto e = vec_exp_nonpositive(d, hn::Sub(load_some(d, x + i, n), hn::Set(d, top)));
    return first_some(d, e, n);
  });
}

void softmax_rows(const Softmax& call, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* x = call.in + row * call.size;
    float* y = call.out + row * call.size;
    const float scale = 1.0f / sum_of_exp(x, max_of(x, call.size), call.size, y);
    for_row(call.size, [=](auto d, size_t i, size_t n) HWY_ATTR {
      store_some(hn::Mul(load_some(d, y + i, n), hn::Set(d, scale)), d, y + i, n);
    });
  }
}

void log_softmax_rows(const Softmax& call, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const float* x = call.in + row * call.size;
    float* y = call.out + row * call.size;
    const float top = max_of(x, call.size);
    const float log_sum = std::log(sum_of_exp(x, top, call.size, nullptr));
    for_row(call.size, [=](auto d, size_t i, size_t n) HWY_ATTR {
      const auto v = hn::Sub(load_some(d, x + i, n), hn::Set(d, top));
      store_some(hn::Sub(v, hn::Set(d, log_sum)), d, y + i, n);
    });
  }
}

/// Lines that lie across: up to kColumns of them side by side, so that each row of memory is
/// visited once per sweep and for whole cache lines.
constexpr int64_t kColumns = 64;

/// Columns [first, first + width) of one [size, inner] matrix.
template <bool kLog>
HWY_INLINE void columns(const Softmax& call, const float* x, float* y, int64_t width) {
  const hn::CappedTag<float, 16> d;
  HWY_ALIGN float tops[kColumns];
  HWY_ALIGN float sums[kColumns];
  for (int64_t c = 0; c < kColumns; ++c) {
    tops[c] = -std::numeric_limits<float>::infinity();
    sums[c] = 0;
  }
  for (int64_t i = 0; i < call.size; ++i) {
    const float* row = x + i * call.inner;
    for_row(width, [&](auto, size_t c, size_t n) HWY_ATTR {
      const auto v = load_some(d, row + c, n);
      hn::Store(hn::Max(hn::Load(d, tops + c), v), d, tops + c);
    });
  }
  for (int64_t i = 0; i < call.size; ++i) {
    const float* row = x + i * call.inner;
    float* to = y + i * call.inner;
    for_row(width, [&](auto, size_t c, size_t n) HWY_ATTR {
      const auto v = hn::Sub(load_some(d, row + c, n), hn::Load(d, tops + c));
      const auto e = vec_exp_nonpositive(d, v);
      if (!kLog) store_some(e, d, to + c, n);
      hn::Store(hn::Add(hn::Load(d, sums + c), e), d, sums + c);
    });
  }
  for_row(width, [&](auto, size_t c, size_t) HWY_ATTR {
    const auto sum = hn::Load(d, sums + c);
    hn::Store(kLog ? vec_log(d, sum) : hn::Div(hn::Set(d, 1.0f), sum), d, sums + c);
  });
  for (int64_t i = 0; i < call.size; ++i) {
    const float* row = x + i * call.inner;
    float* to = y + i * call.inner;
    for_row(width, [&](auto, size_t c, size_t n) HWY_ATTR {
      const auto last = hn::Load(d, sums + c);
      if (kLog) {
        const auto v = hn::Sub(load_some(d, row + c, n), hn::Load(d, tops + c));
        store_some(hn::Sub(v, last), d, to + c, n);
      } else {
        store_some(hn::Mul(load_some(d, to + c, n), last), d, to + c, n);
      }
    });
  }
}

template <bool kLog>
HWY_INLINE void column_tasks(const Softmax& call, int64_t begin, int64_t end) {
  const int64_t per_outer = (call.inner + kColumns - 1) / kColumns;
  for (int64_t task = begin; task < end; ++task) {
    const int64_t first = task % per_outer * kColumns;
    const int64_t at = task / per_outer * call.size * call.inner + first;
    columns<kLog>(call, call.in + at, call.out + at, std::min(kColumns, call.inner - first));
  }
}
void softmax_columns(const Softmax& call, int64_t begin, int64_t end) {
  column_tasks<false>(call, begin, end);
}
void log_softmax_columns(const Softmax& call, int64_t begin, int64_t end) {
  column_tasks<true>(call, begin, end);
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
namespace {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(log_softmax_rows);
HWY_EXPORT(softmax_columns);
HWY_EXPORT(log_softmax_columns);

using Tasks = void (*)(const Softmax& call, int64_t begin, int64_t end);

/// Elements that are worth a thread.
constexpr int64_t kGrain = 8192;

void run_tasks(const Softmax& call, Tasks rows, Tasks columns, ThreadPool& pool) {
  const bool is_rows = call.inner == 1;
  constexpr int64_t kWidth = HWY_STATIC_DISPATCH(kColumns);
  const int64_t width = is_rows ? 1 : std::min(call.inner, kWidth);
  const int64_t count = call.outer * (is_rows ? 1 : (call.inner + kWidth - 1) / kWidth);
  const Tasks tasks = is_rows ? rows : columns;
  pool.run(count, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, call.size * width)),
           [&](int64_t begin, int64_t end, int) { tasks(call, begin, end); });
}

}  // namespace

void softmax(const Softmax& call, ThreadPool& pool) {
  run_tasks(call, &HWY_DYNAMIC_DISPATCH(softmax_rows), &HWY_DYNAMIC_DISPATCH(softmax_columns),
            pool);
}

void log_softmax(const Softmax& call, ThreadPool& pool) {
  run_tasks(call, &HWY_DYNAMIC_DISPATCH(log_softmax_rows),
            &HWY_DYNAMIC_DISPATCH(log_softmax_columns), pool);
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

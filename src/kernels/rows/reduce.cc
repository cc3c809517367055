#include "kernels/rows/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/status.h"
#include "kernels/elementwise/convert.h"
#include "kernels/elementwise/scalar.h"
#include "kernels/rows/reduce_f32.h"

namespace downhaul::kernels {
namespace {

/// Elements that are worth a thread.
constexpr int64_t kGrain = 16384;

int64_t tasks_per_grain(int64_t elements) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, elements));
}

/// Dimensions, outermost first, of which those that can be walked as one are merged.
struct Dimensions {
  int& rank;
  std::array<int64_t, Loops::kMaxRank>& sizes;
  std::array<int64_t, Loops::kMaxRank>& strides;

  bool add(int64_t size, int64_t stride) {
    if (size == 1) return true;
    if (rank > 0) {
      const auto last = static_cast<size_t>(rank - 1);
      if (strides[last] == stride * size) {
        sizes[last] *= size;
        strides[last] = stride;
        return true;
      }
    }
    if (rank == Loops::kMaxRank) return false;
    sizes[static_cast<size_t>(rank)] = size;
    strides[static_cast<size_t>(rank)] = stride;
    ++rank;
    return true;
  }
};

/// Offset of the index-th element of the first `rank` dimensions.
int64_t offset_of(int64_t index, int rank, const std::array<int64_t, Loops::kMaxRank>& sizes,
                  const std::array<int64_t, Loops::kMaxRank>& strides) {
  int64_t offset = 0;
  for (int d = rank - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    offset += index % sizes[i] * strides[i];
    index /= sizes[i];
  }
  return offset;
}

/// Calls run(p, stride, n) for the innermost reduced rows that begin at `p`.
template <typename T, typename Run>
void for_each_reduced_row(const Reduce& plan, const T* p, Run run) {
  if (plan.reduced_rank == 0) {
    run(p, int64_t{1}, plan.count);
    return;
  }
  const auto last = static_cast<size_t>(plan.reduced_rank - 1);
  const int64_t n = plan.reduced_sizes[last];
  const int64_t rows = n == 0 ? 0 : plan.count / n;
  for (int64_t row = 0; row < rows; ++row) {
    run(p + offset_of(row, plan.reduced_rank - 1, plan.reduced_sizes, plan.reduced_strides),
        plan.reduced_strides[last], n);
  }
}

// ---------------------------------------------------------------------------------- any type

template <typename T>
using SumOf = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

/// One result from the elements that begin at `p`.
template <typename T>
T reduce_one(const Reduce& plan, const T* p) {
  switch (plan.op) {
    case ReduceOp::kSum:
    case ReduceOp::kMean: {
      SumOf<T> sum = 0;
      for_each_reduced_row(plan, p, [&](const T* x, int64_t stride, int64_t n) {
        for (int64_t i = 0; i < n; ++i) sum += static_cast<SumOf<T>>(x[i * stride]);
      });
      if constexpr (std::is_floating_point_v<T>) {
        if (plan.op == ReduceOp::kMean) sum /= static_cast<double>(plan.count);
      }
      return static_cast<T>(sum);
    }
    case ReduceOp::kProd: {
      SumOf<T> product = 1;
      for_each_reduced_row(plan, p, [&](const T* x, int64_t stride, int64_t n) {
        for (int64_t i = 0; i < n; ++i) product *= static_cast<SumOf<T>>(x[i * stride]);
      });
      return static_cast<T>(product);
    }
    case ReduceOp::kVar: {
      double sum = 0;
      for_each_reduced_row(plan, p, [&](const T* x, int64_t stride, int64_t n) {
        for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i * stride]);
      });
      const double mean = sum / static_cast<double>(plan.count);
      double squares = 0;
      for_each_reduced_row(plan, p, [&](const T* x, int64_t stride, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const double d = static_cast<double>(x[i * stride]) - mean;
          squares += d * d;
        }
      });
      return static_cast<T>(squares /
                            std::max(0.0, static_cast<double>(plan.count) - plan.correction));
    }
    case ReduceOp::kAmax:
    case ReduceOp::kAmin: {
      T best = *p;
      const bool largest = plan.op == ReduceOp::kAmax;
      for_each_reduced_row(plan, p, [&](const T* x, int64_t stride, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const T v = x[i * stride];
          best = largest ? scalar::larger(best, v) : scalar::smaller(best, v);
        }
      });
      return best;
    }
    default:
      DH_CHECK(false);
  }
}

template <typename T>
bool test_one(const Reduce& plan, const T* p) {
  bool all = true;
  bool any = false;
  for_each_reduced_row(plan, p, [&](const T* x, int64_t stride, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const bool set = x[i * stride] != T(0);
      all = all && set;
      any = any || set;
    }
  });
  return plan.op == ReduceOp::kAll ? all : any;
}

template <typename T>
void reduce_any(const Reduce& plan, const T* in, void* result, ThreadPool& pool) {
  pool.run(plan.results, tasks_per_grain(plan.count), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const T* p = in + offset_of(i, plan.kept_rank, plan.kept_sizes, plan.kept_strides);
      if (gives_bool(plan.op)) {
        static_cast<bool*>(result)[i] = test_one(plan, p);
      } else {
        static_cast<T*>(result)[i] = reduce_one(plan, p);
      }
    }
  });
}

// -------------------------------------------------------------------------------------- f32

/// Results from contiguous runs.
void reduce_runs(const Reduce& plan, const float* in, float* result, ThreadPool& pool) {
  const RunKernels kernels = run_kernels();
  const auto count = static_cast<double>(plan.count);
  pool.run(plan.results, tasks_per_grain(plan.count), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float* p = in + offset_of(i, plan.kept_rank, plan.kept_sizes, plan.kept_strides);
      if (plan.op == ReduceOp::kAmax || plan.op == ReduceOp::kAmin) {
        const auto best_of = plan.op == ReduceOp::kAmax ? kernels.largest : kernels.smallest;
        float best = *p;
        for_each_reduced_row(
            plan, p, [&](const float* x, int64_t, int64_t n) { best = best_of(best, x, n); });
        result[i] = best;
        continue;
      }
      double sum = 0;
      for_each_reduced_row(plan, p,
                           [&](const float* x, int64_t, int64_t n) { sum += kernels.sum(x, n); });
      if (plan.op == ReduceOp::kSum) {
        result[i] = static_cast<float>(sum);
        continue;
      }
      const double mean = sum / count;
      if (plan.op == ReduceOp::kMean) {
        result[i] = static_cast<float>(mean);
        continue;
      }
      const auto center = static_cast<float>(mean);
      double squares = 0;
      for_each_reduced_row(plan, p, [&](const float* x, int64_t, int64_t n) {
        squares += kernels.squares(x, center, n);
      });
      // The mean was rounded for the differences: Σ (x - m)² is larger than around the mean.
      const double off = mean - static_cast<double>(center);
      squares = std::max(0.0, squares - count * off * off);
      result[i] = static_cast<float>(squares / std::max(0.0, count - plan.correction));
    }
  });
}

/// Results side by side, from rows that lie across.
void reduce_across(const Reduce& plan, const float* in, float* result, ThreadPool& pool) {
  const ColumnKernels kernels = column_kernels();
  const auto last = static_cast<size_t>(plan.kept_rank - 1);
  const int64_t width = plan.kept_sizes[last];
  const int64_t blocks = (width + kColumns - 1) / kColumns;
  const int64_t outer = plan.results / width;
  pool.run(
      outer * blocks, tasks_per_grain(plan.count * std::min(width, kColumns)),
      [&](int64_t begin, int64_t end, int) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t row = task / blocks;
          const int64_t first = task % blocks * kColumns;
          const int64_t columns = std::min(kColumns, width - first);
          const float* p =
              in + first + offset_of(row, plan.kept_rank - 1, plan.kept_sizes, plan.kept_strides);
          float* to = result + row * width + first;
          if (plan.op == ReduceOp::kAmax || plan.op == ReduceOp::kAmin) {
            const auto best_of = plan.op == ReduceOp::kAmax ? kernels.largest : kernels.smallest;
            std::copy_n(p, columns, to);
            for_each_reduced_row(plan, p, [&](const float* x, int64_t stride, int64_t n) {
              best_of(x, stride, n, columns, to);
            });
            continue;
          }
          double sums[kColumns] = {};
          for_each_reduced_row(plan, p, [&](const float* x, int64_t stride, int64_t n) {
            kernels.sum(x, stride, n, columns, sums);
          });
          const double by = plan.op == ReduceOp::kMean ? static_cast<double>(plan.count) : 1.0;
          for (int64_t c = 0; c < columns; ++c) to[c] = static_cast<float>(sums[c] / by);
        }
      });
}

void reduce_f32(const Reduce& plan, const float* in, void* result, ThreadPool& pool) {
  const bool plain = gives_bool(plan.op) || plan.op == ReduceOp::kProd || plan.count < 2;
  if (!plain && plan.reduced_strides[static_cast<size_t>(plan.reduced_rank - 1)] == 1) {
    reduce_runs(plan, in, static_cast<float*>(result), pool);
  } else if (!plain && plan.op != ReduceOp::kVar && plan.kept_rank > 0 &&
             plan.kept_strides[static_cast<size_t>(plan.kept_rank - 1)] == 1) {
    reduce_across(plan, in, static_cast<float*>(result), pool);
  } else {
    reduce_any(plan, in, result, pool);
  }
}

}  // namespace

bool is_supported(ReduceOp op, Element element) {
  if (element == Element::kF16 || element == Element::kBF16) return false;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProd:
      return is_float(element) || element == Element::kI64;
    case ReduceOp::kMean:
    case ReduceOp::kVar:
      return is_float(element);
    default:
      return true;
  }
}

std::optional<Reduce> plan_reduce(ReduceOp op, Element element, Extents sizes, Extents dims,
                                  double correction) {
  Reduce plan{.op = op, .element = element, .correction = correction};
  plan.count = 1;
  plan.results = 1;
  int64_t stride = 1;
  for (const int64_t s : sizes) stride *= s;
  Dimensions kept{plan.kept_rank, plan.kept_sizes, plan.kept_strides};
  Dimensions reduced{plan.reduced_rank, plan.reduced_sizes, plan.reduced_strides};
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 0) stride /= sizes[d];
    const bool is_reduced =
        std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    (is_reduced ? plan.count : plan.results) *= sizes[d];
    if (!(is_reduced ? reduced : kept).add(sizes[d], stride)) return std::nullopt;
  }
  return plan;
}

void reduce(const Reduce& plan, const void* in, void* result, ThreadPool& pool) {
  DH_CHECK(is_supported(plan.op, plan.element));
  if (plan.results == 0) return;
  if (plan.element == Element::kF32) {
    reduce_f32(plan, static_cast<const float*>(in), result, pool);
    return;
  }
  with_type(plan.element, [&]<typename T>() {
    if constexpr (!std::is_same_v<T, HalfBits> && !std::is_same_v<T, BFloat16Bits>) {
      reduce_any(plan, static_cast<const T*>(in), result, pool);
    }
  });
}

}  // namespace downhaul::kernels

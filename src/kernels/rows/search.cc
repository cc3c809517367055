#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "base/status.h"
#include "kernels/elementwise/convert.h"
#include "kernels/rows/reduce.h"
#include "kernels/rows/reduce_f32.h"

// What looks along one dimension: positions of extremes, running sums, the k best.
namespace downhaul::kernels {
namespace {

constexpr int64_t kGrain = 16384;

int64_t lines_per_grain(int64_t size) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, size));
}

/// First element of line `line` of [outer, size, inner].
int64_t line_begin(int64_t line, int64_t size, int64_t inner) {
  return line / inner * size * inner + line % inner;
}

/// Calls f.template operator()<T>() for the types that have an order.
template <typename F>
void with_ordered_type(Element element, F f) {
  with_type(element, [&]<typename T>() {
    if constexpr (std::is_same_v<T, HalfBits> || std::is_same_v<T, BFloat16Bits>) {
      DH_CHECK(false);
    } else {
      f.template operator()<T>();
    }
  });
}

/// Order in which NaN stands before everything.
template <bool kLargest, typename T>
bool ranks_before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  }
  return kLargest ? b < a : a < b;
}

template <bool kLargest>
void first_best(Element element, int64_t outer, int64_t size, int64_t inner, const void* in,
                int64_t* result, ThreadPool& pool) {
  if (element == Element::kF32 && inner == 1) {
    const RunKernels kernels = run_kernels();
    pool.run(outer, lines_per_grain(size), [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) {
        const float* x = static_cast<const float*>(in) + line * size;
        const float best = (kLargest ? kernels.largest : kernels.smallest)(*x, x, size);
        result[line] = kernels.find(x, best, size);
      }
    });
    return;
  }
  with_ordered_type(element, [&]<typename T>() {
    pool.run(outer * inner, lines_per_grain(size), [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) {
        const T* x = static_cast<const T*>(in) + line_begin(line, size, inner);
        int64_t best = 0;
        for (int64_t i = 1; i < size; ++i) {
          if (ranks_before<kLargest>(x[i * inner], x[best * inner])) best = i;
        }
        result[line] = best;
      }
    });
  });
}

}  // namespace

void argmax(Element element, int64_t outer, int64_t size, int64_t inner, const void* in,
            int64_t* result, ThreadPool& pool) {
  first_best<true>(element, outer, size, inner, in, result, pool);
}

void argmin(Element element, int64_t outer, int64_t size, int64_t inner, const void* in,
            int64_t* result, ThreadPool& pool) {
  first_best<false>(element, outer, size, inner, in, result, pool);
}

void cumsum(Element element, int64_t outer, int64_t size, int64_t inner, const void* in,
            void* result, ThreadPool& pool) {
  with_ordered_type(element, [&]<typename T>() {
    using Sum = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
    pool.run(outer * inner, lines_per_grain(size), [&](int64_t begin, int64_t end, int) {
      for (int64_t line = begin; line < end; ++line) {
        const int64_t first = line_begin(line, size, inner);
        const T* x = static_cast<const T*>(in) + first;
        T* y = static_cast<T*>(result) + first;
        Sum sum = 0;
        for (int64_t i = 0; i < size; ++i) {
          sum += static_cast<Sum>(x[i * inner]);
          y[i * inner] = static_cast<T>(sum);
        }
      }
    });
  });
}

int64_t topk_scratch_bytes(int64_t size, int num_threads) {
  return size * num_threads * static_cast<int64_t>(sizeof(int64_t));
}

void topk(Element element, int64_t outer, int64_t size, int64_t inner, int64_t k, bool largest,
          const void* in, void* values, int64_t* indices, void* scratch, ThreadPool& pool) {
  with_ordered_type(element, [&]<typename T>() {
    pool.run(outer * inner, lines_per_grain(size), [&](int64_t begin, int64_t end, int worker) {
      int64_t* order = static_cast<int64_t*>(scratch) + worker * size;
      for (int64_t line = begin; line < end; ++line) {
        const T* x = static_cast<const T*>(in) + line_begin(line, size, inner);
        // NaN is the largest value, so it comes last among the smallest.
        const auto better = [=](int64_t a, int64_t b) {
          const T v = x[a * inner];
          const T w = x[b * inner];
          return largest ? ranks_before<true>(v, w) : ranks_before<true>(w, v);
        };
        std::iota(order, order + size, int64_t{0});
        std::partial_sort(order, order + k, order + size, [=](int64_t a, int64_t b) {
          return better(a, b) || (a < b && !better(b, a));
        });
        const int64_t to = line_begin(line, k, inner);
        for (int64_t i = 0; i < k; ++i) {
          static_cast<T*>(values)[to + i * inner] = x[order[i] * inner];
          indices[to + i * inner] = order[i];
        }
      }
    });
  });
}

}  // namespace downhaul::kernels

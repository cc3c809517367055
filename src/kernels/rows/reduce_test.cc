#include "kernels/rows/reduce.h"

#include <algorithm>
#include <limits>
#include <map>

#include "kernels/kernel_test.h"

namespace downhaul::kernels {
namespace {

using Sizes = std::vector<int64_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Case {
  Sizes sizes, dims;
};
const Case kCases[] = {
    {{7}, {0}},
    {{67}, {0}},
    {{5, 33}, {1}},
    {{5, 33}, {0}},
    {{17, 130}, {0}},
    {{40, 300}, {0}},
    {{3, 4, 5}, {1}},
    {{3, 4, 5}, {0, 2}},
    {{2, 3, 7, 7}, {2, 3}},
    {{2, 3, 7, 7}, {0, 2, 3}},
    {{2, 5, 1, 6}, {1, 2}},
    {{2, 3, 4}, {}},
    {{3, 9000}, {1}},
    {{2, 200, 3}, {1}},
    {{1}, {0}},
    {{}, {}},
};

/// The elements that make each result, in order.
template <typename T>
std::vector<std::vector<T>> lines_of(const T* x, const Case& c) {
  std::vector<int64_t> strides(c.sizes.size());
  int64_t count = 1;
  for (size_t d = c.sizes.size(); d-- > 0;) {
    strides[d] = count;
    count *= c.sizes[d];
  }
  std::map<int64_t, std::vector<T>> lines;  // by the place of the result
  for (int64_t i = 0; i < count; ++i) {
    int64_t key = 0;
    for (size_t d = 0; d < c.sizes.size(); ++d) {
      if (std::find(c.dims.begin(), c.dims.end(), static_cast<int64_t>(d)) == c.dims.end()) {
        key += i / strides[d] % c.sizes[d] * strides[d];
      }
    }
    lines[key].push_back(x[i]);
  }
  std::vector<std::vector<T>> result;
  for (auto& [key, line] : lines) result.push_back(std::move(line));
  return result;
}

template <typename Out, typename T>
void run(ReduceOp op, Element element, const Case& c, const GuardedBuffer<T>& in,
         GuardedBuffer<Out>& out, ThreadPool& pool, double correction = 1) {
  const auto plan = plan_reduce(op, element, c.sizes, c.dims, correction);
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->results, static_cast<int64_t>(out.size()));
  reduce(*plan, in.data(), out.data(), pool);
}

size_t elements(const Sizes& sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return static_cast<size_t>(n);
}

TEST(Reduce, SumsMeansAndVariancesOfFloatsAgreeWithF64OverAnyDimensions) {
  on_every_isa_and_pool([](ThreadPool& pool) {
    for (const Case& c : kCases) {
      GuardedBuffer<float> in(elements(c.sizes));
      GuardedBuffer<double> wide(in.size());
      fill_random(in, 1, 5.0);
      for (size_t i = 0; i < in.size(); ++i) wide[i] = static_cast<double>(in[i]);
      const auto lines = lines_of(in.data(), c);
      GuardedBuffer<float> out(lines.size());
      GuardedBuffer<double> wide_out(lines.size());
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kVar, ReduceOp::kProd}) {
        run(op, Element::kF32, c, in, out, pool);
        run(op, Element::kF64, c, wide, wide_out, pool);
        for (size_t i = 0; i < lines.size(); ++i) {
          const auto n = static_cast<double>(lines[i].size());
          double sum = 0;
          double magnitude = 0;
          double product = 1;
          for (const float x : lines[i]) {
            sum += static_cast<double>(x);
            magnitude += std::abs(static_cast<double>(x));
            product *= static_cast<double>(x);
          }
          double squares = 0;
          for (const float x : lines[i]) {
            const double d = static_cast<double>(x) - sum / n;
            squares += d * d;
          }
          // At most 4096 / 64 + 6 additions in f32 on the way of one element.
          const double steps = std::min(n, 70.0) + 1;
          double exact = sum;
          double bound = steps * kEps * magnitude;
          if (op == ReduceOp::kMean) {
            exact = sum / n;
            bound = steps * kEps * magnitude / n;
          } else if (op == ReduceOp::kVar) {
            exact = squares / std::max(0.0, n - 1);
            // Differences are rounded by half an ulp of the numbers, which is small beside them.
            bound = (steps + 2) * kEps * exact + 4 * kEps * std::sqrt(exact) * (magnitude / n);
          } else if (op == ReduceOp::kProd) {
            exact = product;
            bound = kEps * std::abs(product);
          }
          if (std::isnan(exact)) {
            ASSERT_TRUE(std::isnan(out[i]) && std::isnan(wide_out[i]));
            continue;
          }
          if (std::isinf(static_cast<float>(exact))) {
            ASSERT_EQ(static_cast<double>(out[i]), static_cast<double>(static_cast<float>(exact)));
            continue;
          }
          ASSERT_NEAR(out[i], exact, bound)
              << "op " << static_cast<int>(op) << ", " << lines[i].size() << " elements";
          ASSERT_NEAR(wide_out[i], exact, 1e-12 * (std::abs(exact) + magnitude / n));
        }
      }
    }
  });
}

TEST(Reduce, ALargeMeanCostsTheVarianceNoDigits) {
  ThreadPool pool(1);
  GuardedBuffer<float> in(1000);
  fill_random(in, 1, 4096.3, 0.01);
  double sum = 0;
  for (const float x : in) sum += static_cast<double>(x);
  double squares = 0;
  for (const float x : in) squares += std::pow(static_cast<double>(x) - sum / 1000, 2);
  GuardedBuffer<float> out(1);
  run(ReduceOp::kVar, Element::kF32, {{1000}, {0}}, in, out, pool, 0);
  EXPECT_NEAR(out[0], squares / 1000, 1e-5 * squares / 1000);
}

template <typename T>
void check_exact(Element element) {
  on_every_isa_and_pool([&](ThreadPool& pool) {
    for (const Case& c : kCases) {
      GuardedBuffer<T> in(elements(c.sizes));
      fill_random(in, 2, 0, 3);
      if constexpr (std::is_floating_point_v<T>) {
        for (size_t i = 3; i < in.size(); i += 50) in[i] = static_cast<T>(kNan);
        for (size_t i = 4; i < in.size(); i += 7) in[i] = 0;
      }
      const auto lines = lines_of(in.data(), c);
      GuardedBuffer<T> out(lines.size());
      GuardedBuffer<bool> is(lines.size());
      for (const bool largest : {false, true}) {
        run(largest ? ReduceOp::kAmax : ReduceOp::kAmin, element, c, in, out, pool);
        for (size_t i = 0; i < lines.size(); ++i) {
          T best = lines[i][0];
          for (const T x : lines[i]) {
            if (best != best) break;
            if (x != x || (largest ? x > best : x < best)) best = x;
          }
          if (best == T(0)) {
            ASSERT_EQ(out[i], best);
          } else {
            ASSERT_TRUE(same_bits(&best, &out[i], 1));
          }
        }
        run(largest ? ReduceOp::kAny : ReduceOp::kAll, element, c, in, is, pool);
        for (size_t i = 0; i < lines.size(); ++i) {
          bool any = false;
          bool all = true;
          for (const T x : lines[i]) {
            any = any || x != T(0);
            all = all && x != T(0);
          }
          ASSERT_EQ(is[i], largest ? any : all);
        }
      }
      if (element != Element::kI64) continue;
      run(ReduceOp::kSum, element, c, in, out, pool);
      for (size_t i = 0; i < lines.size(); ++i) {
        T sum = 0;
        for (const T x : lines[i]) sum = static_cast<T>(sum + x);
        ASSERT_EQ(out[i], sum);
      }
    }
  });
}

TEST(Reduce, ExtremesAndTestsAreExactInEveryType) {
  check_exact<float>(Element::kF32);
  check_exact<double>(Element::kF64);
  check_exact<int64_t>(Element::kI64);
  check_exact<int32_t>(Element::kI32);
  check_exact<uint8_t>(Element::kU8);
  check_exact<bool>(Element::kBool);
}

TEST(Reduce, OfNothingGivesWhatTheOperatorsSay) {
  ThreadPool pool(1);
  const GuardedBuffer<float> in(0);
  GuardedBuffer<float> out(3);
  GuardedBuffer<bool> is(3);
  const Case across{{0, 3}, {0}};
  run(ReduceOp::kSum, Element::kF32, across, in, out, pool);
  EXPECT_EQ(out[2], 0.0f);
  run(ReduceOp::kProd, Element::kF32, across, in, out, pool);
  EXPECT_EQ(out[2], 1.0f);
  run(ReduceOp::kMean, Element::kF32, across, in, out, pool);
  EXPECT_TRUE(std::isnan(out[2]));
  run(ReduceOp::kVar, Element::kF32, {{3, 0}, {1}}, in, out, pool);
  EXPECT_TRUE(std::isnan(out[2]));
  run(ReduceOp::kAll, Element::kF32, across, in, is, pool);
  EXPECT_TRUE(is[2]);
  run(ReduceOp::kAny, Element::kF32, across, in, is, pool);
  EXPECT_FALSE(is[2]);
}

TEST(Reduce, GivesTheSameBitsOnEveryIsaAndNumberOfThreads) {
  for (const Case& c :
       {Case{{64, 5000}, {1}}, Case{{8, 100, 300}, {1}}, Case{{9, 7, 31}, {0, 2}}}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kVar}) {
      std::vector<float> expected;
      on_every_isa_and_pool([&](ThreadPool& pool) {
        GuardedBuffer<float> in(elements(c.sizes));
        fill_random(in, 1, 1.0);
        GuardedBuffer<float> out(lines_of(in.data(), c).size());
        run(op, Element::kF32, c, in, out, pool);
        if (expected.empty()) expected = copy_of(out);
        ASSERT_TRUE(same_bits(expected.data(), out.data(), out.size()));
      });
    }
  }
}

// -------------------------------------------------------------------------------- one dimension

template <typename T>
bool before(T a, T b, bool largest) {
  if (a != a || b != b) return a != a && !(b != b);
  return largest ? a > b : a < b;
}

template <typename T>
void check_search(Element element) {
  on_every_isa_and_pool([&](ThreadPool& pool) {
    for (const int64_t inner : {1, 3}) {
      for (int64_t size = 1; size <= 67; ++size) {
        const int64_t outer = 3;
        GuardedBuffer<T> in(static_cast<size_t>(outer * size * inner));
        fill_random(in, static_cast<uint32_t>(size));
        if constexpr (std::is_floating_point_v<T>) {
          if (size % 5 == 0) in[in.size() / 2] = static_cast<T>(kNan);
          if (size % 7 == 0) std::fill(in.begin(), in.end(), static_cast<T>(-kInf));
        }
        GuardedBuffer<int64_t> out(static_cast<size_t>(outer * inner));
        const int64_t k = (size + 2) / 3;
        for (const bool largest : {true, false}) {
          (largest ? argmax : argmin)(element, outer, size, inner, in.data(), out.data(), pool);
          GuardedBuffer<T> values(static_cast<size_t>(outer * k * inner));
          GuardedBuffer<int64_t> indices(values.size());
          std::vector<uint8_t> scratch(
              static_cast<size_t>(topk_scratch_bytes(size, pool.num_threads())));
          topk(element, outer, size, inner, k, largest, in.data(), values.data(), indices.data(),
               scratch.data(), pool);
          for (int64_t line = 0; line < outer * inner; ++line) {
            const auto at = [&](int64_t i, int64_t n) {
              return static_cast<size_t>((line / inner * n + i) * inner + line % inner);
            };
            int64_t best = 0;
            std::vector<int64_t> order;
            for (int64_t i = 0; i < size; ++i) {
              order.push_back(i);
              if (before(in[at(i, size)], in[at(best, size)], largest)) best = i;
            }
            ASSERT_EQ(out[static_cast<size_t>(line)], best) << size;
            // NaN is the largest, so among the smallest it comes last.
            std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
              const T x = in[at(a, size)];
              const T y = in[at(b, size)];
              return largest ? before(x, y, true) : before(y, x, true);
            });
            for (int64_t i = 0; i < k; ++i) {
              ASSERT_EQ(indices[at(i, k)], order[static_cast<size_t>(i)]);
              ASSERT_TRUE(
                  same_bits(&in[at(order[static_cast<size_t>(i)], size)], &values[at(i, k)], 1));
            }
          }
        }
      }
    }
  });
}

TEST(Search, FindsTheFirstBestAndTheKBest) {
  check_search<float>(Element::kF32);
  check_search<int64_t>(Element::kI64);
  check_search<uint8_t>(Element::kU8);
}

TEST(Cumsum, AddsInF64OrWraps) {
  on_every_isa_and_pool([](ThreadPool& pool) {
    for (const int64_t inner : {1, 4}) {
      GuardedBuffer<float> in(static_cast<size_t>(2 * 50 * inner));
      GuardedBuffer<float> out(in.size());
      fill_random(in, 1);
      cumsum(Element::kF32, 2, 50, inner, in.data(), out.data(), pool);
      for (int64_t line = 0; line < 2 * inner; ++line) {
        double sum = 0;
        for (int64_t i = 0; i < 50; ++i) {
          const auto at = static_cast<size_t>((line / inner * 50 + i) * inner + line % inner);
          sum += static_cast<double>(in[at]);
          ASSERT_EQ(out[at], static_cast<float>(sum));
        }
      }
    }
  });
  ThreadPool pool(1);
  const int64_t in[] = {std::numeric_limits<int64_t>::max(), 1};
  int64_t out[2];
  cumsum(Element::kI64, 1, 2, 1, in, out, pool);
  EXPECT_EQ(out[1], std::numeric_limits<int64_t>::min());
}

}  // namespace
}  // namespace downhaul::kernels

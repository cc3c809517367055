#include "kernels/elementwise/copy.h"

#include <algorithm>
#include <vector>

#include "kernels/kernel_test.h"

namespace downhaul::kernels {
namespace {

using Sizes = std::vector<int64_t>;

size_t product(const Sizes& sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return static_cast<size_t>(n);
}

Sizes coordinates(size_t i, const Sizes& sizes) {
  Sizes at(sizes.size());
  auto rest = static_cast<int64_t>(i);
  for (size_t d = sizes.size(); d-- > 0;) {
    at[d] = rest % sizes[d];
    rest /= sizes[d];
  }
  return at;
}

size_t place(const Sizes& at, const Sizes& sizes) {
  int64_t offset = 0;
  for (size_t d = 0; d < sizes.size(); ++d) offset = offset * sizes[d] + at[d];
  return static_cast<size_t>(offset);
}

/// Runs the copy for every element size and number of threads and checks each element of the result
/// against `source_of`, the coordinates of the source that it shows (empty: left as it was).
template <typename Plan, typename SourceOf>
void check(Plan plan, const Sizes& source, const Sizes& result, SourceOf source_of) {
  const auto one_type = [&]<typename T>() {
    for (int threads = 1; threads <= 3; ++threads) {
      ThreadPool pool(threads);
      GuardedBuffer<T> from(product(source));
      GuardedBuffer<T> to(product(result));
      for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i * 3 + 1);
      std::fill(to.begin(), to.end(), T(77));
      const std::optional<Copy> copy = plan(static_cast<int64_t>(sizeof(T)));
      ASSERT_TRUE(copy.has_value());
      run_copy(*copy, from.data(), to.data(), pool);
      for (size_t i = 0; i < to.size(); ++i) {
        const Sizes at = source_of(coordinates(i, result));
        ASSERT_EQ(to[i], at.empty() ? T(77) : from[place(at, source)]) << i;
      }
    }
  };
  one_type.template operator()<uint8_t>();
  one_type.template operator()<uint16_t>();
  one_type.template operator()<uint32_t>();
  one_type.template operator()<uint64_t>();
}

TEST(Copy, PartsOfAConcatenation) {
  for (const int64_t axis : {0, 1, 2}) {
    const Sizes source = {4, 5, 67};
    Sizes result = source;
    result[static_cast<size_t>(axis)] += 9;
    const auto a = static_cast<size_t>(axis);
    check([&](int64_t size) { return plan_concat_part(source, axis, 3, result[a], 1, size); },
          source, result,
          [&](Sizes at) {
            at[a] -= 3;
            return at[a] >= 0 && at[a] < source[a] ? at : Sizes{};
          });
  }
  // Every second place.
  check([&](int64_t size) { return plan_concat_part(Sizes{3, 4}, 1, 1, 9, 2, size); }, {3, 4},
        {3, 9},
        [&](Sizes at) { return at[1] % 2 == 1 && at[1] < 9 ? Sizes{at[0], at[1] / 2} : Sizes{}; });
}

TEST(Copy, Slices) {
  for (const int64_t step : {1, 3}) {
    for (const int64_t axis : {0, 1, 2}) {
      const Sizes source = {7, 8, 33};
      const auto a = static_cast<size_t>(axis);
      Sizes result = source;
      result[a] = (source[a] - 2 + step - 1) / step;
      check([&](int64_t size) { return plan_slice(source, axis, 2, step, result[a], size); },
            source, result,
            [&](Sizes at) {
              at[a] = 2 + at[a] * step;
              return at;
            });
    }
  }
}

TEST(Copy, ExpandsAndRepeats) {
  check([](int64_t size) { return plan_expand(Sizes{3, 1}, Sizes{2, 3, 40}, size); }, {3, 1},
        {2, 3, 40}, [](const Sizes& at) { return Sizes{at[1], 0}; });
  check([](int64_t size) { return plan_expand(Sizes{5}, Sizes{70, 5}, size); }, {5}, {70, 5},
        [](const Sizes& at) { return Sizes{at[1]}; });
  check([](int64_t size) { return plan_repeat(Sizes{3, 4}, Sizes{2, 3, 2}, size); }, {3, 4},
        {2, 9, 8}, [](const Sizes& at) { return Sizes{at[1] % 3, at[2] % 4}; });
}

TEST(Copy, Flips) {
  const bool reversed[] = {true, false, true};
  check([&](int64_t size) { return plan_flip(Sizes{3, 4, 37}, reversed, size); }, {3, 4, 37},
        {3, 4, 37}, [](const Sizes& at) { return Sizes{2 - at[0], at[1], 36 - at[2]}; });
}

TEST(Copy, WhatPaddingLeaves) {
  const Sizes before = {1, -2, 3};
  const Sizes after = {0, 4, -1};
  check([&](int64_t size) { return plan_pad_inside(Sizes{2, 5, 20}, before, after, size); },
        {2, 5, 20}, {3, 7, 22},
        [](Sizes at) {
          at = {at[0] - 1, at[1] + 2, at[2] - 3};
          const bool inside = at[0] >= 0 && at[1] < 5 && at[2] >= 0 && at[2] < 20;
          return inside ? at : Sizes{};
        });
}

TEST(Copy, NothingAndTooManyDimensions) {
  ThreadPool pool(1);
  const auto empty = plan_expand(Sizes{1, 0}, Sizes{3, 0}, 4);
  ASSERT_TRUE(empty.has_value());
  run_copy(*empty, nullptr, nullptr, pool);
  Sizes sizes(10, 2);
  Sizes strides;
  for (int64_t d = 0; d < 10; ++d) strides.push_back((d * 7 + 3) % 11);
  EXPECT_FALSE(plan_copy(sizes, strides, strides, 0, 0, 4).has_value());
}

TEST(TableCopy, ShowsIndicesOrTheFillValue) {
  const std::vector<int64_t> rows = {2, -1, 0, 1};
  const std::vector<int64_t> columns = {4, 3, -1, 0, 0};
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    GuardedBuffer<uint16_t> from(15);
    GuardedBuffer<uint16_t> to(20);
    for (size_t i = 0; i < 15; ++i) from[i] = static_cast<uint16_t>(i);
    TableCopy copy{.rank = 2, .element_size = 2};
    copy.sizes = {4, 5};
    copy.source_strides = {5, 1};
    copy.tables = {rows.data(), columns.data()};
    const uint16_t value = 99;
    run_table_copy(copy, from.data(), &value, to.data(), pool);
    for (size_t i = 0; i < 20; ++i) {
      const int64_t r = rows[i / 5];
      const int64_t c = columns[i % 5];
      ASSERT_EQ(to[i], r < 0 || c < 0 ? 99 : r * 5 + c);
    }
  }
}

TEST(Fill, WritesOneValueEverywhere) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    GuardedBuffer<float> to(100000);
    const float value = -2.5f;
    fill(4, 100000, &value, to.data(), pool);
    for (const float x : to) ASSERT_EQ(x, value);
  }
}

TEST(Triangle, KeepsOneSideOfADiagonal) {
  ThreadPool pool(2);
  for (const bool upper : {false, true}) {
    for (const int64_t diagonal : {-9, -1, 0, 2, 9}) {
      GuardedBuffer<int32_t> x(2 * 5 * 7);
      GuardedBuffer<int32_t> y(x.size());
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i + 1);
      triangle(4, 2, 5, 7, diagonal, upper, x.data(), y.data(), pool);
      for (size_t i = 0; i < x.size(); ++i) {
        const int64_t d = static_cast<int64_t>(i % 7) - static_cast<int64_t>(i / 7 % 5);
        ASSERT_EQ(y[i], (upper ? d >= diagonal : d <= diagonal) ? x[i] : 0);
      }
      triangle(4, 2, 5, 7, diagonal, upper, x.data(), x.data(), pool);
      ASSERT_TRUE(same_bits(y.data(), x.data(), x.size()));
    }
  }
}

}  // namespace
}  // namespace downhaul::kernels

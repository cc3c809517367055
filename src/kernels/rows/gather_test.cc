#include "kernels/rows/gather.h"

#include <algorithm>

#include "kernels/kernel_test.h"

namespace downhaul::kernels {
namespace {

using Sizes = std::vector<int64_t>;

TEST(GatherRows, CopiesRowsOfAnySizeByEitherIndexType) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for (const int64_t row : {1, 3, 4, 64, 3072}) {
      const int64_t outer = 2;
      const int64_t size = 9;
      const int64_t count = 50;
      GuardedBuffer<uint8_t> source(static_cast<size_t>(outer * size * row));
      GuardedBuffer<uint8_t> result(static_cast<size_t>(outer * count * row));
      GuardedBuffer<int64_t> wide(static_cast<size_t>(count));
      GuardedBuffer<int32_t> narrow(static_cast<size_t>(count));
      for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 7);
      for (size_t i = 0; i < wide.size(); ++i)
        wide[i] = narrow[i] = static_cast<int32_t>(i * 5 % 9);
      for (const Indices& indices :
           {Indices{wide.data(), Element::kI64}, Indices{narrow.data(), Element::kI32}}) {
        std::fill(result.begin(), result.end(), uint8_t{1});
        ASSERT_TRUE(
            gather_rows(outer, size, row, count, indices, source.data(), result.data(), pool));
        for (int64_t i = 0; i < outer * count * row; ++i) {
          const int64_t o = i / row / count;
          const int64_t at = wide[static_cast<size_t>(i / row % count)];
          ASSERT_EQ(result[static_cast<size_t>(i)],
                    source[static_cast<size_t>((o * size + at) * row + i % row)]);
        }
      }
    }
  }
}

TEST(GatherRows, AnIndexOutOfRangeIsSaidAndNotRead) {
  ThreadPool pool(2);
  GuardedBuffer<float> source(4);
  GuardedBuffer<float> result(3);
  fill_random(source, 1);
  for (const int64_t bad : {int64_t{4}, int64_t{-1}, int64_t{1} << 62, -(int64_t{1} << 62)}) {
    const int64_t indices[] = {1, bad, 3};
    EXPECT_FALSE(gather_rows(1, 4, 4, 3, {indices}, source.data(), result.data(), pool));
    EXPECT_EQ(result[0], source[1]);
    EXPECT_EQ(result[1], 0.0f);
    EXPECT_EQ(result[2], source[3]);
  }
  const int64_t last[] = {-1};
  EXPECT_TRUE(
      gather_rows(1, 4, 4, 1, {last, Element::kI64, true}, source.data(), result.data(), pool));
  EXPECT_EQ(result[0], source[3]);
}

TEST(BatchedSelect, TakesOneRowOfEachBatchAlsoFromTheEnd) {
  ThreadPool pool(2);
  GuardedBuffer<float> source(3 * 4 * 5);
  GuardedBuffer<float> result(3 * 5);
  fill_random(source, 1);
  const int32_t index[] = {2, -4, -1};
  const int64_t rows[] = {2, 0, 3};
  ASSERT_TRUE(
      batched_select(3, 4, 20, {index, Element::kI32, true}, source.data(), result.data(), pool));
  for (int64_t b = 0; b < 3; ++b) {
    for (int64_t i = 0; i < 5; ++i) {
      ASSERT_EQ(result[static_cast<size_t>(b * 5 + i)],
                source[static_cast<size_t>((b * 4 + rows[b]) * 5 + i)]);
    }
  }
  const int32_t bad[] = {0, -5, 4};
  EXPECT_FALSE(
      batched_select(3, 4, 20, {bad, Element::kI32, true}, source.data(), result.data(), pool));
}

TEST(Gather, LooksUpAlongOneDimension) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for (int axis = 0; axis < 3; ++axis) {
      Gather call{.rank = 3, .axis = axis, .element_size = 2};
      const int64_t source_sizes[] = {4, 5, 6};
      const int64_t index_sizes[] = {3, 5, 4};
      std::copy_n(source_sizes, 3, call.source_sizes.begin());
      std::copy_n(index_sizes, 3, call.index_sizes.begin());
      GuardedBuffer<int16_t> source(120);
      GuardedBuffer<int16_t> result(60);
      GuardedBuffer<int64_t> index(60);
      for (size_t i = 0; i < 120; ++i) source[i] = static_cast<int16_t>(i);
      const auto along = static_cast<size_t>(source_sizes[axis]);
      for (size_t i = 0; i < 60; ++i) index[i] = static_cast<int64_t>(i * 7 % along);
      ASSERT_TRUE(gather(call, {index.data()}, source.data(), result.data(), pool));
      for (size_t i = 0; i < 60; ++i) {
        int64_t at[] = {static_cast<int64_t>(i) / 20, static_cast<int64_t>(i) / 4 % 5,
                        static_cast<int64_t>(i) % 4};
        at[axis] = index[i];
        ASSERT_EQ(result[i], (at[0] * 5 + at[1]) * 6 + at[2]);
      }
      index[59] = static_cast<int64_t>(along);
      EXPECT_FALSE(gather(call, {index.data()}, source.data(), result.data(), pool));
      EXPECT_EQ(result[59], 0);
    }
  }
}

struct IndexCase {
  Sizes source;
  std::vector<std::optional<Sizes>> indices;
  Sizes before, b, after;  ///< of the picked shape
};
const IndexCase kIndexCases[] = {
    {{7}, {Sizes{5}}, {}, {5}, {}},
    {{7, 3}, {Sizes{2, 4}}, {}, {2, 4}, {3}},
    {{4, 7}, {std::nullopt, Sizes{5}}, {4}, {5}, {}},
    {{4, 7, 3}, {std::nullopt, Sizes{6}}, {4}, {6}, {3}},
    {{4, 5, 6}, {Sizes{3, 1}, Sizes{2}}, {}, {3, 2}, {6}},
    {{2, 4, 5, 6}, {std::nullopt, Sizes{3}, Sizes{3}}, {2}, {3}, {6}},
    {{4, 5, 6}, {Sizes{3}, std::nullopt, Sizes{3}}, {}, {3}, {5}},
    {{4, 5}, {Sizes{}, Sizes{3}}, {}, {3}, {}},
};

/// Calls f(offset in the source, number of the picked element), computed from coordinates.
template <typename F>
void for_each_pick(const IndexCase& c, const std::vector<std::vector<int64_t>>& indices, F f) {
  Sizes picked = c.before;
  picked.insert(picked.end(), c.b.begin(), c.b.end());
  picked.insert(picked.end(), c.after.begin(), c.after.end());
  int64_t count = 1;
  for (const int64_t s : picked) count *= s;
  for (int64_t i = 0; i < count; ++i) {
    Sizes at(picked.size());
    int64_t rest = i;
    for (size_t d = picked.size(); d-- > 0;) {
      at[d] = rest % picked[d];
      rest /= picked[d];
    }
    const Sizes b(at.begin() + static_cast<ptrdiff_t>(c.before.size()),
                  at.begin() + static_cast<ptrdiff_t>(c.before.size() + c.b.size()));
    size_t next_before = 0;
    size_t next_after = c.before.size() + c.b.size();
    int64_t offset = 0;
    for (size_t d = 0; d < c.source.size(); ++d) {
      int64_t index = 0;
      if (d < c.indices.size() && c.indices[d]) {
        const Sizes& own = *c.indices[d];
        int64_t place = 0;
        for (size_t k = 0; k < own.size(); ++k) {
          place = place * own[k] + (own[k] == 1 ? 0 : b[b.size() - own.size() + k]);
        }
        index = indices[d][static_cast<size_t>(place)];
        if (index < 0) index += c.source[d];
      } else {
        index = next_before < c.before.size() ? at[next_before++] : at[next_after++];
      }
      offset = offset * c.source[d] + index;
    }
    f(static_cast<size_t>(offset), static_cast<size_t>(i));
  }
}

TEST(Index, ReadsAndWritesWhatTheIndexTensorsPick) {
  for (const IndexCase& c : kIndexCases) {
    std::vector<std::vector<int64_t>> indices(c.source.size());
    std::vector<std::optional<Extents>> extents;
    size_t elements = 1;
    size_t picks = 1;
    for (const int64_t s : c.source) elements *= static_cast<size_t>(s);
    for (const Sizes* part : {&c.before, &c.b, &c.after}) {
      for (const int64_t s : *part) picks *= static_cast<size_t>(s);
    }
    Sizes picked = c.before;
    picked.insert(picked.end(), c.b.begin(), c.b.end());
    picked.insert(picked.end(), c.after.begin(), c.after.end());
    for (size_t d = 0; d < c.indices.size(); ++d) {
      extents.emplace_back();
      if (!c.indices[d]) continue;
      extents.back() = *c.indices[d];
      size_t n = 1;
      for (const int64_t s : *c.indices[d]) n *= static_cast<size_t>(s);
      for (size_t i = 0; i < n; ++i) {
        const auto size = static_cast<size_t>(c.source[d]);
        // Some twice, some from the end.
        indices[d].push_back(static_cast<int64_t>((i * 3 + d) % size) -
                             (i % 2 == 0 ? c.source[d] : 0));
      }
    }
    const auto with_data = [&](std::optional<IndexCall> call) {
      int k = 0;
      for (const auto& list : indices) {
        if (!list.empty()) {
          call->indices[static_cast<size_t>(k++)] = {list.data(), Element::kI64, true};
        }
      }
      return *call;
    };
    for (int threads = 1; threads <= 3; ++threads) {
      ThreadPool pool(threads);
      GuardedBuffer<float> source(elements);
      GuardedBuffer<float> result(picks);
      fill_random(source, 1);
      const auto plan = plan_index(c.source, extents, std::nullopt, 4);
      ASSERT_TRUE(plan.has_value());
      ASSERT_TRUE(index(with_data(plan), source.data(), result.data(), pool));
      for_each_pick(c, indices,
                    [&](size_t at, size_t i) { ASSERT_EQ(result[i], source[at]) << i; });
    }
    // Writing: values as picked, and one number for all.
    for (const bool one : {false, true}) {
      GuardedBuffer<float> target(elements);
      GuardedBuffer<float> values(one ? 1 : picks);
      fill_random(target, 1);
      fill_random(values, 2);
      std::vector<float> put = copy_of(target);
      std::vector<float> added = copy_of(target);
      for_each_pick(c, indices, [&](size_t at, size_t i) {
        put[at] = values[one ? 0 : i];
        added[at] += values[one ? 0 : i];
      });
      const auto plan = plan_index(c.source, extents, one ? Extents() : Extents(picked), 4);
      ASSERT_TRUE(plan.has_value());
      const std::vector<float> before = copy_of(target);
      ASSERT_TRUE(index_put(with_data(plan), values.data(), target.data()));
      EXPECT_TRUE(same_bits(put.data(), target.data(), target.size()));
      std::copy(before.begin(), before.end(), target.begin());
      ASSERT_TRUE(index_add(with_data(plan), Element::kF32, values.data(), target.data()));
      EXPECT_TRUE(same_bits(added.data(), target.data(), target.size()));
    }
    // One out of range.
    for (auto& list : indices) {
      if (!list.empty()) list.back() = 1000;
    }
    ThreadPool pool(1);
    GuardedBuffer<float> source(elements);
    GuardedBuffer<float> result(picks);
    EXPECT_FALSE(index(with_data(plan_index(c.source, extents, std::nullopt, 4)), source.data(),
                       result.data(), pool));
    EXPECT_FALSE(index_put(with_data(plan_index(c.source, extents, Extents(picked), 4)),
                           result.data(), source.data()));
  }
}

}  // namespace
}  // namespace downhaul::kernels

#include "kernels/elementwise/copy.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/status.h"

namespace downhaul::kernels {
namespace {

/// Bytes that are worth a thread.
constexpr int64_t kGrain = int64_t{1} << 16;

}  // namespace

std::optional<Copy> plan_copy(Extents sizes, Extents from_strides, Extents to_strides, int64_t from,
                              int64_t to, int64_t element_size) {
  const auto loops = strided_loops(sizes, to_strides, std::span(&from_strides, 1));
  if (!loops) return std::nullopt;
  return Copy{.plan = plan_permute(loops->rank, loops->sizes.data(), loops->strides[0].data(),
                                   loops->result_strides.data(), element_size),
              .from = from,
              .to = to};
}

void run_copy(const Copy& copy, const void* source, void* result, ThreadPool& pool) {
  const PermutePlan& plan = copy.plan;
  const auto* from = static_cast<const uint8_t*>(source) + copy.from * plan.element_size;
  auto* to = static_cast<uint8_t*>(result) + copy.to * plan.element_size;
  if (plan.rank == 1 && plan.from[0] == 1 && plan.to[0] == 1) {
    pool.run(plan.sizes[0] * plan.element_size, kGrain, [&](int64_t begin, int64_t end, int) {
      std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
    });
    return;
  }
  permute(plan, from, to, pool);
}

std::optional<Copy> plan_concat_part(Extents sizes, int64_t axis, int64_t start, int64_t total,
                                     int64_t step, int64_t element_size) {
  std::vector<int64_t> whole(sizes.begin(), sizes.end());
  whole[static_cast<size_t>(axis)] = total;
  std::vector<int64_t> to = row_major(whole);
  const int64_t first = start * to[static_cast<size_t>(axis)];
  to[static_cast<size_t>(axis)] *= step;
  return plan_copy(sizes, row_major(sizes), to, 0, first, element_size);
}

std::optional<Copy> plan_slice(Extents sizes, int64_t axis, int64_t start, int64_t step,
                               int64_t count, int64_t element_size) {
  std::vector<int64_t> taken(sizes.begin(), sizes.end());
  taken[static_cast<size_t>(axis)] = count;
  std::vector<int64_t> from = row_major(sizes);
  const int64_t first = start * from[static_cast<size_t>(axis)];
  from[static_cast<size_t>(axis)] *= step;
  return plan_copy(taken, from, row_major(taken), first, 0, element_size);
}

std::optional<Copy> plan_expand(Extents sizes, Extents result, int64_t element_size) {
  const std::vector<int64_t> own = row_major(sizes);
  std::vector<int64_t> from(result.size(), 0);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1) from[result.size() - sizes.size() + d] = own[d];
  }
  return plan_copy(result, from, row_major(result), 0, 0, element_size);
}

std::optional<Copy> plan_repeat(Extents sizes, Extents repeats, int64_t element_size) {
  const size_t missing = repeats.size() - sizes.size();
  const std::vector<int64_t> own = row_major(sizes);
  std::vector<int64_t> pairs;  // repeat, size, repeat, size, …
  std::vector<int64_t> from;
  for (size_t d = 0; d < repeats.size(); ++d) {
    pairs.push_back(repeats[d]);
    pairs.push_back(d < missing ? 1 : sizes[d - missing]);
    from.push_back(0);
    from.push_back(d < missing ? 0 : own[d - missing]);
  }
  return plan_copy(pairs, from, row_major(pairs), 0, 0, element_size);
}

std::optional<Copy> plan_flip(Extents sizes, std::span<const bool> reversed, int64_t element_size) {
  std::vector<int64_t> from = row_major(sizes);
  int64_t first = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!reversed[d] || sizes[d] == 0) continue;
    first += (sizes[d] - 1) * from[d];
    from[d] = -from[d];
  }
  return plan_copy(sizes, from, row_major(sizes), first, 0, element_size);
}

std::optional<Copy> plan_pad_inside(Extents sizes, Extents before, Extents after,
                                    int64_t element_size) {
  std::vector<int64_t> padded;
  std::vector<int64_t> inside;
  for (size_t d = 0; d < sizes.size(); ++d) {
    padded.push_back(sizes[d] + before[d] + after[d]);
    const int64_t cropped = std::min<int64_t>(before[d], 0) + std::min<int64_t>(after[d], 0);
    inside.push_back(std::max<int64_t>(0, sizes[d] + cropped));
  }
  const std::vector<int64_t> from = row_major(sizes);
  const std::vector<int64_t> to = row_major(padded);
  int64_t source = 0;
  int64_t target = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    source += std::max<int64_t>(-before[d], 0) * from[d];
    target += std::max<int64_t>(before[d], 0) * to[d];
  }
  return plan_copy(inside, from, to, source, target, element_size);
}

void run_table_copy(const TableCopy& copy, const void* source, const void* fill_value, void* result,
                    ThreadPool& pool) {
  DH_CHECK(copy.rank >= 1);
  const auto last = static_cast<size_t>(copy.rank - 1);
  const int64_t width = copy.sizes[last];
  int64_t rows = 1;
  for (size_t d = 0; d < last; ++d) rows *= copy.sizes[d];
  if (rows * width == 0) return;
  with_size(copy.element_size, [&]<typename T>() {
    const T* from = static_cast<const T*>(source);
    const T value = fill_value == nullptr ? T(0) : *static_cast<const T*>(fill_value);
    T* to = static_cast<T*>(result);
    const int64_t chunk = std::max<int64_t>(1, kGrain / (width * copy.element_size));
    pool.run(rows, chunk, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t offset = 0;
        bool outside = false;
        int64_t rest = row;
        for (size_t d = last; d-- > 0;) {
          const int64_t index = copy.tables[d][rest % copy.sizes[d]];
          rest /= copy.sizes[d];
          outside = outside || index < 0;
          offset += index * copy.source_strides[d];
        }
        T* out = to + row * width;
        if (outside) {
          std::fill_n(out, width, value);
          continue;
        }
        const int64_t* table = copy.tables[last];
        const int64_t stride = copy.source_strides[last];
        for (int64_t i = 0; i < width; ++i) {
          out[i] = table[i] < 0 ? value : from[offset + table[i] * stride];
        }
      }
    });
  });
}

void fill(int64_t element_size, int64_t count, const void* value, void* result, ThreadPool& pool) {
  with_size(element_size, [&]<typename T>() {
    const T v = *static_cast<const T*>(value);
    T* to = static_cast<T*>(result);
    pool.run(count, kGrain / element_size,
             [&](int64_t begin, int64_t end, int) { std::fill(to + begin, to + end, v); });
  });
}

void triangle(int64_t element_size, int64_t batch, int64_t rows, int64_t columns, int64_t diagonal,
              bool upper, const void* source, void* result, ThreadPool& pool) {
  const auto* from = static_cast<const uint8_t*>(source);
  auto* to = static_cast<uint8_t*>(result);
  const int64_t line = columns * element_size;
  pool.run(batch * rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, line)),
           [&](int64_t begin, int64_t end, int) {
             for (int64_t i = begin; i < end; ++i) {
               // Kept columns are [0, edge), or [edge, columns).
               const int64_t row = i % rows;
               const int64_t edge =
                   std::clamp<int64_t>(row + diagonal + (upper ? 0 : 1), 0, columns) * element_size;
               const uint8_t* a = from + i * line;
               uint8_t* b = to + i * line;
               const int64_t kept = upper ? line - edge : edge;
               uint8_t* blank = upper ? b : b + edge;
               const int64_t first = upper ? edge : 0;
               if (a != b) std::memcpy(b + first, a + first, static_cast<size_t>(kept));
               std::memset(blank, 0, static_cast<size_t>(line - kept));
             }
           });
}

}  // namespace downhaul::kernels

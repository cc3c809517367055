#include "kernels/rows/gather.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/status.h"
#include "kernels/elementwise/convert.h"
#include "kernels/elementwise/scalar.h"

namespace downhaul::kernels {
namespace {

/// Bytes that are worth a thread.
constexpr int64_t kGrain = int64_t{1} << 16;

int64_t rows_per_grain(int64_t row_bytes) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row_bytes));
}

constexpr int64_t kOutside = -1;

/// Index i as a position in [0, size), or kOutside.
int64_t position(const Indices& indices, int64_t i, int64_t size) {
  int64_t at = indices.element == Element::kI64 ? static_cast<const int64_t*>(indices.data)[i]
                                                : static_cast<const int32_t*>(indices.data)[i];
  if (at < 0 && indices.from_end) at += size;
  return at >= 0 && at < size ? at : kOutside;
}

/// Copies one row, or zeros when its position is outside. False then.
bool copy_row(const uint8_t* rows, int64_t at, int64_t row_bytes, uint8_t* to) {
  if (at == kOutside) {
    std::memset(to, 0, static_cast<size_t>(row_bytes));
    return false;
  }
  std::memcpy(to, rows + at * row_bytes, static_cast<size_t>(row_bytes));
  return true;
}

/// Offset in the source of element b of B, or kOutside.
int64_t index_offset(const IndexCall& call, const LoopCursor& b) {
  int64_t offset = 0;
  for (int k = 0; k < call.num_indices; ++k) {
    const auto i = static_cast<size_t>(k);
    const int64_t at = position(call.indices[i], b.offset(k), call.sizes[i]);
    if (at == kOutside) return kOutside;
    offset += at * call.strides[i];
  }
  return offset;
}

/// Calls put(offset in target, offset in values) for every picked element, in order.
template <typename Put>
bool for_each_picked(const IndexCall& call, Put put) {
  bool good = true;
  LoopCursor before(call.before, 0);
  for (int64_t i = 0; i < call.before.count; ++i, before.advance(1)) {
    LoopCursor b(call.index_loops, 0);
    for (int64_t j = 0; j < call.index_loops.count; ++j, b.advance(1)) {
      const int64_t offset = index_offset(call, b);
      if (offset == kOutside) {
        good = false;
        continue;
      }
      const int64_t target = before.offset(0) + offset;
      const int64_t value = before.offset(1) + b.offset(call.num_indices);
      LoopCursor after(call.after, 0);
      for (int64_t k = 0; k < call.after.count; ++k, after.advance(1)) {
        put(target + after.offset(0), value + after.offset(1));
      }
    }
  }
  return good;
}

}  // namespace

bool gather_rows(int64_t outer, int64_t size, int64_t row_bytes, int64_t count,
                 const Indices& indices, const void* source, void* result, ThreadPool& pool) {
  const auto* from = static_cast<const uint8_t*>(source);
  auto* to = static_cast<uint8_t*>(result);
  std::atomic<bool> good{true};
  pool.run(outer * count, rows_per_grain(row_bytes), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* rows = from + i / count * size * row_bytes;
      if (!copy_row(rows, position(indices, i % count, size), row_bytes, to + i * row_bytes)) {
        good.store(false, std::memory_order_relaxed);
      }
    }
  });
  return good.load(std::memory_order_relaxed);
}

bool batched_select(int64_t batch, int64_t size, int64_t row_bytes, const Indices& index,
                    const void* source, void* result, ThreadPool& pool) {
  const auto* from = static_cast<const uint8_t*>(source);
  auto* to = static_cast<uint8_t*>(result);
  std::atomic<bool> good{true};
  pool.run(batch, rows_per_grain(row_bytes), [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      const uint8_t* rows = from + b * size * row_bytes;
      if (!copy_row(rows, position(index, b, size), row_bytes, to + b * row_bytes)) {
        good.store(false, std::memory_order_relaxed);
      }
    }
  });
  return good.load(std::memory_order_relaxed);
}

bool gather(const Gather& call, const Indices& indices, const void* source, void* result,
            ThreadPool& pool) {
  const auto rank = static_cast<size_t>(call.rank);
  const auto axis = static_cast<size_t>(call.axis);
  std::array<int64_t, Loops::kMaxRank> strides{};
  int64_t stride = 1;
  int64_t count = 1;
  for (size_t d = rank; d-- > 0;) {
    strides[d] = stride;
    stride *= call.source_sizes[d];
    count *= call.index_sizes[d];
  }
  std::atomic<bool> good{true};
  with_size(call.element_size, [&]<typename T>() {
    const T* from = static_cast<const T*>(source);
    T* to = static_cast<T*>(result);
    pool.run(count, kGrain / 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = position(indices, i, call.source_sizes[axis]);
        if (at == kOutside) {
          good.store(false, std::memory_order_relaxed);
          to[i] = T(0);
          continue;
        }
        int64_t offset = at * strides[axis];
        int64_t rest = i;
        for (size_t d = rank; d-- > 0;) {
          if (d != axis) offset += rest % call.index_sizes[d] * strides[d];
          rest /= call.index_sizes[d];
        }
        to[i] = from[offset];
      }
    });
  });
  return good.load(std::memory_order_relaxed);
}

std::optional<IndexCall> plan_index(Extents source,
                                    std::span<const std::optional<Extents>> index_sizes,
                                    std::optional<Extents> values, int64_t element_size) {
  IndexCall call{.element_size = element_size};
  const std::vector<int64_t> strides = row_major(source);
  std::vector<size_t> indexed;
  std::vector<size_t> kept;
  for (size_t d = 0; d < source.size(); ++d) {
    (d < index_sizes.size() && index_sizes[d] ? indexed : kept).push_back(d);
  }
  if (indexed.empty() || indexed.size() > IndexCall::kMaxIndices) return std::nullopt;
  // B stands where the index tensors stand when those are neighbours, else in front.
  const bool neighbours = indexed.back() - indexed.front() + 1 == indexed.size();
  const size_t kept_before = neighbours ? indexed.front() : 0;

  std::vector<int64_t> b_sizes;
  for (const size_t d : indexed) {
    const Extents own = *index_sizes[d];
    if (own.size() > b_sizes.size())
      b_sizes.insert(b_sizes.begin(), own.size() - b_sizes.size(), 1);
    for (size_t i = 0; i < own.size(); ++i) {
      int64_t& size = b_sizes[b_sizes.size() - own.size() + i];
      if (size == 1) size = own[i];
    }
  }
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  std::vector<int64_t> before_strides;
  std::vector<int64_t> after_strides;
  for (size_t k = 0; k < kept.size(); ++k) {
    (k < kept_before ? before : after).push_back(source[kept[k]]);
    (k < kept_before ? before_strides : after_strides).push_back(strides[kept[k]]);
  }
  // Strides of the values at every dimension of the picked shape.
  const size_t picked_rank = before.size() + b_sizes.size() + after.size();
  std::vector<int64_t> value_strides(picked_rank, 0);
  if (values) {
    const std::vector<int64_t> own = row_major(*values);
    for (size_t d = 0; d < own.size(); ++d) {
      if ((*values)[d] != 1) value_strides[picked_rank - own.size() + d] = own[d];
    }
  }
  const Extents all_values(value_strides);
  const Extents b_values = all_values.subspan(before.size(), b_sizes.size());

  std::vector<std::vector<int64_t>> index_strides;
  for (const size_t d : indexed) {
    const auto i = static_cast<size_t>(call.num_indices++);
    call.sizes[i] = source[d];
    call.strides[i] = strides[d];
    const Extents own = *index_sizes[d];
    const std::vector<int64_t> own_strides = row_major(own);
    std::vector<int64_t>& wide = index_strides.emplace_back(b_sizes.size(), 0);
    for (size_t k = 0; k < own.size(); ++k) {
      if (own[k] != 1) wide[b_sizes.size() - own.size() + k] = own_strides[k];
    }
  }
  std::vector<Extents> b_operands(index_strides.begin(), index_strides.end());
  b_operands.push_back(b_values);
  const Extents before_operands[] = {before_strides, all_values.first(before.size())};
  const Extents after_operands[] = {after_strides, all_values.last(after.size())};
  const auto b_loops = strided_loops(b_sizes, row_major(b_sizes), b_operands);
  const auto before_loops = strided_loops(before, row_major(before), before_operands);
  const auto after_loops = strided_loops(after, row_major(after), after_operands);
  if (!b_loops || !before_loops || !after_loops) return std::nullopt;
  call.index_loops = *b_loops;
  call.before = *before_loops;
  call.after = *after_loops;
  return call;
}

bool index(const IndexCall& call, const void* source, void* result, ThreadPool& pool) {
  const int64_t picks = call.index_loops.count;
  const int64_t run = call.after.count;
  if (run == 0) return true;
  const bool contiguous = call.after.rank == 1 && call.after.inner_stride(0) == 1;
  std::atomic<bool> good{true};
  with_size(call.element_size, [&]<typename T>() {
    const T* from = static_cast<const T*>(source);
    T* to = static_cast<T*>(result);
    const int64_t chunk = rows_per_grain(run * call.element_size);
    pool.run(call.before.count * picks, chunk, [&](int64_t begin, int64_t end, int) {
      LoopCursor before(call.before, begin / picks);
      LoopCursor b(call.index_loops, begin % picks);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t offset = index_offset(call, b);
        T* out = to + i * run;
        if (offset == kOutside) {
          good.store(false, std::memory_order_relaxed);
          std::fill_n(out, run, T(0));
        } else if (const T* p = from + before.offset(0) + offset; contiguous) {
          std::copy_n(p, run, out);
        } else {
          LoopCursor after(call.after, 0);
          for (int64_t k = 0; k < run; ++k, after.advance(1)) out[k] = p[after.offset(0)];
        }
        b.advance(1);
        if ((i + 1) % picks == 0) before.advance(1);
      }
    });
  });
  return good.load(std::memory_order_relaxed);
}

bool index_put(const IndexCall& call, const void* values, void* target) {
  bool good = true;
  with_size(call.element_size, [&]<typename T>() {
    const T* from = static_cast<const T*>(values);
    T* to = static_cast<T*>(target);
    good = for_each_picked(call, [&](int64_t at, int64_t value) { to[at] = from[value]; });
  });
  return good;
}

bool index_add(const IndexCall& call, Element element, const void* values, void* target) {
  bool good = true;
  with_type(element, [&]<typename T>() {
    if constexpr (std::is_same_v<T, HalfBits> || std::is_same_v<T, BFloat16Bits>) {
      DH_CHECK(false);
    } else {
      const T* from = static_cast<const T*>(values);
      T* to = static_cast<T*>(target);
      good = for_each_picked(call, [&](int64_t at, int64_t value) {
        if constexpr (std::is_same_v<T, bool>) {
          to[at] = to[at] || from[value];
        } else {
          to[at] = scalar::wrapping(to[at], from[value], [](auto a, auto b) { return a + b; });
        }
      });
    }
  });
  return good;
}

}  // namespace downhaul::kernels

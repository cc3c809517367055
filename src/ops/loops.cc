#include "ops/loops.h"

#include <cstring>
#include <numeric>

namespace downhaul {

LoopNest make_loops(Sizes sizes, std::vector<std::vector<int64_t>> strides) {
  LoopNest out;
  out.strides.resize(strides.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    bool merge = !out.sizes.empty();
    for (size_t o = 0; o < strides.size() && merge; ++o) {
      merge = out.strides[o].back() == strides[o][d] * sizes[d];
    }
    if (merge) {
      out.sizes.back() *= sizes[d];
      for (size_t o = 0; o < strides.size(); ++o) out.strides[o].back() = strides[o][d];
    } else {
      out.sizes.push_back(sizes[d]);
      for (size_t o = 0; o < strides.size(); ++o) out.strides[o].push_back(strides[o][d]);
    }
  }
  if (out.sizes.empty()) {
    out.sizes.push_back(1);
    for (auto& s : out.strides) s.push_back(1);
  }
  return out;
}

std::vector<int64_t> broadcast_strides(const Sizes& sizes, const Sizes& result) {
  DH_CHECK(sizes.size() <= result.size());
  const std::vector<int64_t> own = contiguous_strides(sizes);
  std::vector<int64_t> out(result.size(), 0);
  const size_t shift = result.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) out[shift + d] = sizes[d] == 1 ? 0 : own[d];
  return out;
}

LoopNest broadcast_loops(const Sizes& result, std::initializer_list<const Tensor*> operands) {
  std::vector<std::vector<int64_t>> strides;
  for (const Tensor* t : operands) strides.push_back(broadcast_strides(t->sizes(), result));
  return make_loops(result, std::move(strides));
}

namespace {

template <typename T>
void strided_copy_as(const T* in, const LoopNest& loops, T* out) {
  const int64_t n = loops.inner_size();
  const int64_t step = loops.inner_stride(0);
  for_each_row(loops, [&](int64_t to, const int64_t* from) {
    const T* src = in + from[0];
    T* dst = out + to;
    if (step == 1) {
      std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(T));
    } else {
      for (int64_t i = 0; i < n; ++i) dst[i] = src[i * step];
    }
  });
}

template <typename T>
void copy_tables_as(const T* in, const std::vector<int64_t>& in_strides, const IndexTables& tables,
                    T fill, T*& out, size_t dim, int64_t offset, bool inside) {
  const std::vector<int64_t>& table = tables[dim];
  if (dim + 1 == tables.size()) {
    for (const int64_t i : table) *out++ = inside && i >= 0 ? in[offset + i] : fill;
    return;
  }
  for (const int64_t i : table) {
    copy_tables_as(in, in_strides, tables, fill, out, dim + 1, offset + i * in_strides[dim],
                   inside && i >= 0);
  }
}

/// Calls f with a null pointer to an unsigned integer of the element's width.
template <typename F>
void by_item_size(DType dtype, F f) {
  switch (item_size(dtype)) {
    case 1:
      return f(static_cast<const uint8_t*>(nullptr));
    case 2:
      return f(static_cast<const uint16_t*>(nullptr));
    case 4:
      return f(static_cast<const uint32_t*>(nullptr));
    default:
      return f(static_cast<const uint64_t*>(nullptr));
  }
}

}  // namespace

void strided_copy(const Tensor& in, int64_t offset, std::vector<int64_t> strides, Tensor& out) {
  if (out.num_elements() == 0) return;
  const LoopNest loops = make_loops(out.sizes(), {std::move(strides)});
  by_item_size(in.dtype(), [&]<typename T>(const T*) {
    strided_copy_as<T>(in.data<T>() + offset, loops, out.mutable_data<T>());
  });
}

void copy_by_tables(const Tensor& in, const IndexTables& tables, const void* fill, Tensor& out) {
  if (out.num_elements() == 0) return;
  const std::vector<int64_t> strides = contiguous_strides(in.sizes());
  by_item_size(in.dtype(), [&]<typename T>(const T*) {
    T value{};
    if (fill != nullptr) std::memcpy(&value, fill, sizeof(T));
    T* to = out.mutable_data<T>();
    if (tables.empty()) {
      *to = *in.data<T>();
    } else {
      copy_tables_as<T>(in.data<T>(), strides, tables, value, to, 0, 0, true);
    }
  });
}

std::vector<int64_t> identity_table(int64_t size) {
  std::vector<int64_t> table(static_cast<size_t>(size));
  std::iota(table.begin(), table.end(), int64_t{0});
  return table;
}

Tensor permuted(const Tensor& in, std::span<const int64_t> dims) {
  const std::vector<int64_t> own = contiguous_strides(in.sizes());
  Sizes sizes;
  std::vector<int64_t> strides;
  for (const int64_t d : dims) {
    sizes.push_back(in.size(d));
    strides.push_back(own[static_cast<size_t>(d)]);
  }
  Tensor out(in.dtype(), std::move(sizes));
  strided_copy(in, 0, std::move(strides), out);
  return out;
}

Tensor to_nchw(const Tensor& in, bool nhwc) {
  return nhwc ? permuted(in, std::vector<int64_t>{0, 3, 1, 2}) : in;
}

Tensor from_nchw(const Tensor& in, bool nhwc) {
  return nhwc ? permuted(in, std::vector<int64_t>{0, 2, 3, 1}) : in;
}

}  // namespace downhaul

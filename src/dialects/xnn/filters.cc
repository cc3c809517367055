#include "dialects/xnn/filters.h"

namespace downhaul::xnn {

Tensor permuted(const Tensor& t, const std::vector<int64_t>& perm) {
  Sizes sizes;
  for (int64_t p : perm) sizes.push_back(t.size(p));

  // Nothing moves when the dimensions larger than 1 keep their order.
  bool moves = false;
  int64_t last = -1;
  for (int64_t p : perm) {
    if (t.size(p) == 1) continue;
    moves |= p < last;
    last = p;
  }
  if (!moves) return t.reshaped(sizes);

  DH_CHECK(t.dtype() == DType::kF32);
  const std::vector<int64_t> strides = contiguous_strides(t.sizes());
  Tensor result(DType::kF32, sizes);
  float* out = result.mutable_data<float>();
  const float* in = t.data<float>();
  const size_t rank = perm.size();
  const int64_t inner = sizes[rank - 1];
  const int64_t inner_stride = strides[static_cast<size_t>(perm[rank - 1])];
  std::vector<int64_t> index(rank, 0);
  const int64_t count = result.num_elements();
  for (int64_t done = 0; done < count; done += inner) {
    int64_t offset = 0;
    for (size_t i = 0; i + 1 < rank; ++i) {
      offset += index[i] * strides[static_cast<size_t>(perm[i])];
    }
    for (int64_t i = 0; i < inner; ++i) *out++ = in[offset + i * inner_stride];
    for (size_t i = rank - 1; i-- > 0;) {
      if (++index[i] < sizes[i]) break;
      index[i] = 0;
    }
  }
  return result;
}

Tensor transposed_filter_to_payload(const Tensor& t, int64_t groups) {
  const int64_t in = t.size(0) / groups;
  const int64_t out = t.size(1);
  const Tensor split = t.reshaped({groups, in, out, t.size(2), t.size(3)});
  return permuted(split, {0, 2, 3, 4, 1}).reshaped({groups * out, t.size(2), t.size(3), in});
}

Tensor transposed_filter_from_payload(const Tensor& t, int64_t groups) {
  const int64_t out = t.size(0) / groups;
  const int64_t in = t.size(3);
  const Tensor split = t.reshaped({groups, out, t.size(1), t.size(2), in});
  return permuted(split, {0, 4, 1, 2, 3}).reshaped({groups * in, out, t.size(1), t.size(2)});
}

}  // namespace downhaul::xnn

#pragma once

#include "tensor/tensor.h"

/// Orders of convolution filters. A permutation that moves no byte (a 1x1 kernel) returns a view of
/// the same storage, so that a mapped weight stays mapped.
namespace downhaul::xnn {

/// Result dimension i is dimension perm[i] of `t`, which has f32 elements.
Tensor permuted(const Tensor& t, const std::vector<int64_t>& perm);

/// Filter of a transposed convolution: IR [in, out/groups, kh, kw] ↔ payload [out, kh, kw,
/// in/groups].
Tensor transposed_filter_to_payload(const Tensor& t, int64_t groups);
Tensor transposed_filter_from_payload(const Tensor& t, int64_t groups);

}  // namespace downhaul::xnn

#pragma once

#include <optional>
#include <span>

#include "dialects/aten/call.h"

/// Arithmetic on shapes that several rows need.
namespace downhaul::aten {

/// `shape` with its one -1, if any, replaced by what `count` elements leave for it; must hold
/// exactly `count` elements otherwise. Errors go to `c`.
Dims resolve_shape(Call& c, const Dim& count, Dims shape);

/// Start and end of a slice along a dimension of `size`, as torch clamps them: negative counts from
/// the end, 0 <= start <= end <= size.
struct Range {
  Dim start;
  Dim end;
};
Range clamp_range(const Dim& size, const std::optional<Dim>& start, const std::optional<Dim>& end);

/// `index` along a dimension of `size`, non-negative. Errors go to `c`.
Dim wrap_index(Call& c, const Dim& index, const Dim& size);

/// The smaller or larger of two dimensions; simplifies when the bounds decide.
Dim smaller(const Dim& a, const Dim& b);
Dim larger(const Dim& a, const Dim& b);

/// True when a tensor of this memory can be seen under `shape` without a copy (torch's rule for
/// reshape). Dynamic sizes are judged by the example that the archive states.
bool can_view(const pt2::TensorMeta& meta, const Dims& shape,
              const std::optional<std::vector<int64_t>>& example);

/// Row-major without gaps, by the archive's strides.
bool is_contiguous(const pt2::TensorMeta& meta);
bool is_contiguous(std::span<const int64_t> sizes, std::span<const int64_t> strides);

/// `v` with its dimensions [dim, dim + count) replaced by `sizes`.
Dims replaced(const Shape& shape, int64_t dim, int64_t count, const Dims& sizes);

/// Broadcasts dimensions as torch does; errors go to `c`.
Dims broadcast(Call& c, const Shape& a, const Shape& b);

}  // namespace downhaul::aten

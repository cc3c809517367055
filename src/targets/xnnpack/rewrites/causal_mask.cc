// attention(q, k, v, mask) whose mask is a stretch of a constant lower triangle → is_causal; of the
// triangle's row that lets every key through → no mask. A model exported with a dynamic length
// slices such a table of its largest length; a delegate makes the triangle from two vectors.
#include <algorithm>

#include "ops/ops.h"
#include "passes/values.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

namespace {

/// Anything at or below this, added to a score, leaves a weight of exactly 0 beside any that is not
/// masked.
constexpr double kClosed = -1e9;

/// Element [.., i, j] is open exactly when j <= i. A table of a long model has a million elements,
/// and each layer asks.
template <typename T, typename IsOpen, typename IsClosed>
bool is_lower_triangle(const Tensor& mask, IsOpen is_open, IsClosed is_closed) {
  const int64_t rows = mask.size(mask.rank() - 2);
  const int64_t columns = mask.size(mask.rank() - 1);
  const T* row = mask.data<T>();
  const T* const end = row + mask.num_elements();
  for (int64_t r = 0; row != end; row += columns, r = (r + 1) % rows) {
    const int64_t open = std::min(r + 1, columns);
    if (!std::all_of(row, row + open, is_open)) return false;
    if (!std::all_of(row + open, row + columns, is_closed)) return false;
  }
  return mask.num_elements() > 0;
}

bool is_lower_triangle(const Tensor& mask) {
  if (mask.rank() < 2) return false;
  if (mask.dtype() == DType::kBool) {
    return is_lower_triangle<uint8_t>(
        mask, [](uint8_t v) { return v != 0; }, [](uint8_t v) { return v == 0; });
  }
  if (mask.dtype() == DType::kF32) {
    return is_lower_triangle<float>(
        mask, [](float v) { return v == 0; }, [](float v) { return v <= kClosed; });
  }
  return false;
}

/// A stretch [start, start + count) of rows and the first columns of a triangle.
struct Stretch {
  Dim row_start = 0;
  Dim rows;
  Dim columns;
};

std::optional<Stretch> stretch_of_triangle(const Value* mask) {
  if (mask->is_constant()) {
    if (!is_lower_triangle(mask->constant())) return std::nullopt;
    return Stretch{Dim(0), mask->dim(mask->rank() - 2), mask->dim(mask->rank() - 1)};
  }
  if (!is_op(mask, ops::kSlice)) return std::nullopt;
  const Node& node = *mask->producer();
  std::optional<Stretch> stretch = stretch_of_triangle(node.operand(0));
  const int64_t axis = node.axis("dim", mask->rank());
  if (!stretch || node.i("step") != 1) return std::nullopt;
  if (axis == mask->rank() - 2) {
    stretch->row_start = stretch->row_start + node.dim("start");
    stretch->rows = node.dim("end") - node.dim("start");
  } else if (axis == mask->rank() - 1) {
    if (!(node.dim("start") == Dim(0))) return std::nullopt;
    stretch->columns = node.dim("end");
  }
  return stretch;
}

std::vector<Value*> apply(Node& node, Builder& b) {
  const Value* mask = node.operand("mask");
  if (mask == nullptr || node.b("is_causal")) return {};
  const std::optional<Stretch> stretch = stretch_of_triangle(mask);
  const int64_t rows = node.operand("query")->rank() - 2;
  if (!stretch || !(stretch->rows == node.operand("query")->dim(rows)) ||
      !(stretch->columns == node.operand("key")->dim(rows))) {
    return {};
  }
  const bool whole = stretch->row_start == Dim(0);
  const bool last = stretch->rows == Dim(1) && stretch->row_start + Dim(1) == stretch->columns;
  if (!whole && !last) return {};
  return {b.like(node, {node.operand("query"), node.operand("key"), node.operand("value"), nullptr},
                 {{"is_causal", !last}})};
}

}  // namespace

const Rewrite kTriangleToCausal = {
    .name = "xnn_triangle_to_causal",
    .root = &ops::kAttention,
    .apply = apply,
};

}  // namespace downhaul::xnnpack

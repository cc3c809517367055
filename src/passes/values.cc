#include "passes/values.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "ops/ops.h"

namespace downhaul {

bool is_op(const Value* value, const OpDef& op) {
  return value != nullptr && value->producer() != nullptr && value->producer()->is(op);
}

bool is_small_constant(const Value* value) {
  return value != nullptr && value->is_constant() &&
         value->constant().num_elements() <= kSmallElements;
}

std::optional<double> splat_value(const Value* value) {
  if (!is_small_constant(value)) return std::nullopt;
  double number = 0;
  if (!value->constant().is_splat(&number)) return std::nullopt;
  return number;
}

bool is_splat(const Value* value, double number) {
  const auto found = splat_value(value);
  if (!found) return false;
  return *found == number ||
         std::abs(*found - number) <= 1e-6 * std::max(std::abs(*found), std::abs(number));
}

bool only_sliced(const Value* value) {
  return value->num_output_uses() == 0 &&
         std::all_of(value->uses().begin(), value->uses().end(),
                     [](const Use& use) { return use.node->is(ops::kSlice); });
}

int64_t max_bytes(const TensorType& type) {
  int64_t bytes = static_cast<int64_t>(item_size(type.dtype));
  for (const Dim& dim : type.shape) {
    const auto product = checked_mul(bytes, dim.max());
    if (!product) return INT64_MAX;
    bytes = *product;
  }
  return bytes;
}

Shape without_ones(const Shape& shape) {
  Shape out;
  for (const Dim& dim : shape) {
    if (!(dim == Dim(1))) out.push_back(dim);
  }
  return out;
}

namespace {

std::optional<Range> constant_range(const Tensor& t) {
  const int64_t n = t.num_elements();
  if (!is_integer(t.dtype()) || n == 0 || n > kSmallElements) return std::nullopt;
  Range range{Dim(t.int_at(0)), Dim(n), -1};
  for (int64_t d = 0; d < t.rank(); ++d) {
    if (t.size(d) == 1) continue;
    if (range.axis >= 0) return std::nullopt;
    range.axis = d;
  }
  for (int64_t i = 1; i < n; ++i) {
    if (t.int_at(i) != t.int_at(0) + i) return std::nullopt;
  }
  return range;
}

/// The range under another shape with the same elements.
std::optional<Range> reshaped_range(Range range, const Shape& shape) {
  range.axis = -1;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d) {
    const Dim& dim = shape[static_cast<size_t>(d)];
    if (dim == Dim(1)) continue;
    if (range.axis >= 0 || !(dim == range.length)) return std::nullopt;
    range.axis = d;
  }
  return range;
}

}  // namespace

std::optional<Range> match_range(const Value* value) {
  if (value->is_constant()) return constant_range(value->constant());
  const Node* node = value->producer();
  if (node == nullptr || !is_integer(value->dtype())) return std::nullopt;
  if (node->is(ops::kArange)) {
    if (node->i("step") != 1) return std::nullopt;
    const Dim length = node->dim("end") - node->dim("start");
    return Range{node->dim("start"), length, length == Dim(1) ? -1 : 0};
  }
  if (node->is(ops::kReshape)) {
    const auto range = match_range(node->operand(0));
    if (!range) return std::nullopt;
    return reshaped_range(*range, value->shape());
  }
  if (node->is(ops::kCast)) return match_range(node->operand(0));
  if (node->is(ops::kSlice)) {
    auto range = match_range(node->operand(0));
    const int64_t dim = node->axis("dim", value->rank());
    if (!range || node->i("step") != 1 || dim != range->axis) return std::nullopt;
    range->start = range->start + node->dim("start");
    range->length = node->dim("end") - node->dim("start");
    if (range->length == Dim(1)) range->axis = -1;
    return range;
  }
  if (node->is(ops::kAdd)) {
    const auto shift = splat_value(node->operand(1));
    auto range = match_range(node->operand(0));
    if (!range || !shift || !(node->operand(0)->type() == value->type())) return std::nullopt;
    range->start = range->start + Dim(static_cast<int64_t>(*shift));
    return range;
  }
  return std::nullopt;
}

std::vector<double> to_doubles(const Tensor& tensor) {
  std::vector<double> out(static_cast<size_t>(tensor.num_elements()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = tensor.at(static_cast<int64_t>(i));
  return out;
}

Tensor from_doubles(DType dtype, Sizes sizes, const std::vector<double>& values) {
  Tensor t(dtype, std::move(sizes));
  DH_CHECK(t.num_elements() == static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) t.set(static_cast<int64_t>(i), values[i]);
  return t;
}

std::optional<std::vector<double>> per_channel(const Value* value, const TensorType& type,
                                               int64_t axis) {
  if (!is_small_constant(value)) return std::nullopt;
  const Dim& channels = type.shape[static_cast<size_t>(axis)];
  const Tensor& t = value->constant();
  if (!channels.is_static() || t.rank() > type.rank()) return std::nullopt;
  const int64_t shift = type.rank() - t.rank();
  for (int64_t d = 0; d < t.rank(); ++d) {
    const bool here = d + shift == axis;
    if (t.size(d) != 1 && !(here && t.size(d) == channels.value())) return std::nullopt;
  }
  std::vector<double> factors = to_doubles(t);
  if (factors.size() == 1) factors.resize(static_cast<size_t>(channels.value()), factors[0]);
  return factors;
}

Value* strip_scale(Value* value, double& factor) {
  while (is_op(value, ops::kMul) && value->has_one_use()) {
    const Node& node = *value->producer();
    const auto scale = splat_value(node.operand(1));
    if (!scale || !(node.operand(0)->type() == value->type())) break;
    factor *= *scale;
    value = node.operand(0);
  }
  return value;
}

Value* broadcast_to(Builder& b, Value* value, const Shape& shape) {
  if (value == nullptr || value->shape() == shape) return value;
  return b.op(ops::kExpand, {value}, {{"size", Dims(shape)}});
}

Value* filled(Builder& b, const TensorType& type, double number) {
  return broadcast_to(b, b.scalar(type.dtype, number), type.shape);
}

}  // namespace downhaul

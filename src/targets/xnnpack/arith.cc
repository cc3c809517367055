#include "targets/xnnpack/arith.h"

#include <functional>

#include "ops/ops.h"

namespace downhaul::xnnpack {

Value* number(Builder& b, double value) { return b.scalar(DType::kF32, value); }
Value* add(Builder& b, Value* x, Value* y) { return b.op(ops::kAdd, {x, y}); }
Value* sub(Builder& b, Value* x, Value* y) { return b.op(ops::kSub, {x, y}); }
Value* mul(Builder& b, Value* x, Value* y) { return b.op(ops::kMul, {x, y}); }
Value* square(Builder& b, Value* x) { return mul(b, x, x); }

Value* clamp(Builder& b, Value* x, std::optional<double> min, std::optional<double> max) {
  NamedAttrs attrs;
  if (min) attrs.push_back({"min", *min});
  if (max) attrs.push_back({"max", *max});
  return b.op(ops::kClamp, {x}, attrs);
}

Value* reshape(Builder& b, Value* x, const Shape& shape) {
  if (x != nullptr && x->shape() == shape) return x;
  return b.op(ops::kReshape, {x}, {{"shape", Dims(shape)}});
}

Value* permute(Builder& b, Value* x, const Ints& dims) {
  return b.op(ops::kPermute, {x}, {{"dims", dims}});
}

Value* matmul(Builder& b, Value* x, Value* y, bool transpose_y) {
  return b.op(ops::kMatmul, {x, y}, {{"transpose_other", transpose_y}});
}

Value* slice(Builder& b, Value* x, int64_t dim, const Dim& start, const Dim& end) {
  return b.op(ops::kSlice, {x}, {{"dim", dim}, {"start", start}, {"end", end}});
}

Value* sum_last(Builder& b, Value* x, double factor, std::optional<double> shift) {
  if (x == nullptr) return nullptr;
  const int64_t n = x->dim(x->rank() - 1).value();
  Value* row = b.constant(Tensor::from<float>(
      {1, n}, std::vector<float>(static_cast<size_t>(n), static_cast<float>(factor))));
  Value* bias = nullptr;
  if (shift) bias = b.constant(Tensor::from<float>({1}, std::vector{static_cast<float>(*shift)}));
  return b.op(ops::kLinear, {x, row, bias});
}

namespace {

/// The first `size` elements of a constant made for the largest size.
Value* first_of(Builder& b, const Dim& size, const std::function<float(int64_t)>& element) {
  const int64_t n = size.max();
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = element(i);
  Value* all = b.constant(Tensor::from<float>({n}, values));
  return size.is_static() ? all : slice(b, all, 0, Dim(0), size);
}

}  // namespace

Value* positions(Builder& b, const Dim& size) {
  return first_of(b, size, [](int64_t i) { return static_cast<float>(i); });
}

Value* ones(Builder& b, const Dim& size) {
  return first_of(b, size, [](int64_t) { return 1.0f; });
}

Value* indicator(Builder& b, Value* condition) {
  return b.op(ops::kCast, {condition}, {{"dtype", DType::kF32}});
}

Dim product(const Shape& shape, size_t first, size_t last) {
  Dim result = 1;
  for (size_t i = first; i < last; ++i) result = result * shape[i];
  return result;
}

bool is_static(const Value* value) { return value->type().is_static(); }
bool is_f32(const Value* value) { return value->dtype() == DType::kF32; }

}  // namespace downhaul::xnnpack

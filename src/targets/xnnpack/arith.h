#pragma once

#include <optional>

#include "ir/graph.h"

/// f32 expressions, as the legalizing rewrites build them.
namespace downhaul::xnnpack {

Value* number(Builder& b, double value);  ///< rank 0, f32
Value* add(Builder& b, Value* x, Value* y);
Value* sub(Builder& b, Value* x, Value* y);
Value* mul(Builder& b, Value* x, Value* y);
Value* square(Builder& b, Value* x);
Value* clamp(Builder& b, Value* x, std::optional<double> min, std::optional<double> max);
Value* reshape(Builder& b, Value* x, const Shape& shape);
Value* permute(Builder& b, Value* x, const Ints& dims);
Value* matmul(Builder& b, Value* x, Value* y, bool transpose_y = false);
Value* slice(Builder& b, Value* x, int64_t dim, const Dim& start, const Dim& end);

/// Sum over the last dimension, kept as size 1, times `factor`, plus `shift`: a product with one
/// constant row, which is the runtime's fastest reduction. The last size must be static.
Value* sum_last(Builder& b, Value* x, double factor, std::optional<double> shift = {});

/// 0, 1, 2, … along a dimension of `size` as f32 [size]. A dynamic one is a slice of a constant of
/// the largest size, which a kernel outside cuts.
Value* positions(Builder& b, const Dim& size);
/// f32 [size] of ones, likewise.
Value* ones(Builder& b, const Dim& size);

/// 1 where the condition holds, else 0, for a bool value: the form in which a delegate computes
/// with conditions.
Value* indicator(Builder& b, Value* condition);

/// Product of the sizes in [first, last).
Dim product(const Shape& shape, size_t first, size_t last);
bool is_static(const Value* value);
bool is_f32(const Value* value);

}  // namespace downhaul::xnnpack

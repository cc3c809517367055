#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

/// Questions that many rewrites ask about values, and arithmetic on small constants.
namespace downhaul {

/// Constants above this are weights: nobody reads them only to find out whether they are special.
constexpr int64_t kSmallElements = 1 << 16;

bool is_op(const Value* value, const OpDef& op);  ///< false for null
/// The common value of all elements of a constant of 1 to kSmallElements elements.
std::optional<double> splat_value(const Value* value);
bool is_splat(const Value* value, double number);  ///< within 1e-6 relative
bool is_small_constant(const Value* value);

/// True when every use of the value is a slice of it.
bool only_sliced(const Value* value);

/// Bytes at the upper bounds of dynamic sizes; saturates.
int64_t max_bytes(const TensorType& type);
/// Same elements in the same order when only dimensions of size 1 come, go or move.
Shape without_ones(const Shape& shape);

/// Integers that count up by one along one dimension, all other dimensions being 1.
struct Range {
  Dim start;
  Dim length;
  int64_t axis = -1;  ///< -1: a single element
};
/// Recognises constants, arange, and slice, reshape, cast and shift of such.
std::optional<Range> match_range(const Value* value);

/// A constant seen as one factor per element of dimension `axis` of a value of `type`, to which it
/// broadcasts without changing the type; nullopt when it varies along other dimensions too.
std::optional<std::vector<double>> per_channel(const Value* value, const TensorType& type,
                                               int64_t axis);
std::vector<double> to_doubles(const Tensor& tensor);
Tensor from_doubles(DType dtype, Sizes sizes, const std::vector<double>& values);

/// x · s where s is a scalar constant: gives x and multiplies `factor` by s, through as many such
/// products (with one use each) as there are.
Value* strip_scale(Value* value, double& factor);

/// `value` broadcast to `type` (a no-op when it has that type).
Value* broadcast_to(Builder& b, Value* value, const Shape& shape);
/// A constant of `shape` (which may be dynamic) with every element equal to `number`.
Value* filled(Builder& b, const TensorType& type, double number);

}  // namespace downhaul

#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.h"
#include "ir/graph.h"

/// The questions that operators' inference asks. Every failure is one line of the kind
/// kInvalidGraph that names the argument, what was expected and what was found.
namespace downhaul {

using TypesResult = Result<std::vector<TensorType>>;

/// The types of an operator with one result.
inline TypesResult one_type(DType dtype, Shape shape) {
  return std::vector<TensorType>{{dtype, std::move(shape)}};
}
inline TypesResult one_type(const TensorType& type) { return std::vector<TensorType>{type}; }

// --- dtypes of tensor arguments; absent ones pass
Status require_float(const Node& node, std::string_view arg);
Status require_number(const Node& node, std::string_view arg);  ///< integers and floats
Status require_bool(const Node& node, std::string_view arg);
Status require_index_dtype(std::string_view arg, const TensorType& type);  ///< i32 or i64
Status require_dtype(const Node& node, std::string_view arg, DType expected);
/// All present arguments have the dtype of the first.
Status require_same_dtype(const Node& node, std::initializer_list<std::string_view> args);

// --- ranks and shapes of tensor arguments; absent ones pass
Status require_rank(const Node& node, std::string_view arg, int64_t rank);
Status require_min_rank(const Node& node, std::string_view arg, int64_t rank);
Status require_shape(const Node& node, std::string_view arg, const Shape& expected);
/// A dimension that has to be equal to another.
Status require_dim(std::string_view arg, int64_t index, const Dim& found, const Dim& expected);

// --- attributes
/// `attr` names a dimension of a tensor of `rank`; negative counts from the end.
Status require_axis(const Node& node, std::string_view attr, int64_t rank);
/// Each entry in [0, rank), none twice.
Status require_axes(const Node& node, std::string_view attr, int64_t rank);
/// `count` entries, each at least `least` and below 2^31, so that index arithmetic on them and on
/// sizes of real tensors stays inside 64 bits.
Status require_ints(const Node& node, std::string_view attr, size_t count, int64_t least);
/// At least `least` and below 2^31.
Status require_int(const Node& node, std::string_view attr, int64_t least);
Status require_one_of(const Node& node, std::string_view attr,
                      std::initializer_list<std::string_view> values);
/// Sizes that are not below zero for every value of their symbols.
Status require_sizes(const Node& node, std::string_view attr);

/// The common shape of two that broadcast: trailing dimensions equal, or one of them 1.
/// `name_a`, `name_b` are for the message.
Result<Shape> broadcast_shapes(std::string_view name_a, const Shape& a, std::string_view name_b,
                               const Shape& b);
/// `from` broadcasts to exactly `to`.
Status require_broadcastable(std::string_view name, const Shape& from, const Shape& to);

/// ceil(a / b) for b > 0.
Dim ceil_div(const Dim& a, int64_t b);
/// True when a > b for all values of the symbols.
bool always_greater(const Dim& a, const Dim& b);

// --- whole inferences that many operators share
TypesResult infer_same(const Node& node);         ///< one operand, result of its type, any dtype
TypesResult infer_same_number(const Node& node);  ///< integers and floats
TypesResult infer_same_float(const Node& node);   ///< floats

}  // namespace downhaul

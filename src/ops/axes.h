#pragma once

#include <span>
#include <string_view>

#include "ir/graph.h"

/// Building blocks for OpDef::axes. A result dimension is mapped to only when the operator can run
/// on a part of it: taking the same part of every operand dimension that maps to it (and of
/// attributes that are sizes) gives that part of the result. So where the position of an element
/// matters (the mask of tril, causal attention), or where another operand needs the dimension whole
/// (the weight beside a normalised dimension), it counts as whole.
namespace downhaul {

/// Every dimension of every operand whole.
AxisMap whole_axes(const Node& node);

/// Marks dimension `dim` of operand `operand` as mapped to dimension `to` of the result, when both
/// have the same size other than 1 (a size of 1 may be broadcast); no effect on an absent operand.
void map_axis(AxisMap& map, const Node& node, int operand, int64_t dim, int64_t to);
/// As map_axis, also for size 1: only where the operator never broadcasts this dimension.
void map_axis_always(AxisMap& map, int operand, int64_t dim, int64_t to);

/// Elementwise operators: every operand broadcasts to the result.
AxisMap elementwise_axes(const Node& node);
/// Operators that keep each dimension of the first operand in its place except those listed.
AxisMap same_except(const Node& node, std::span<const int64_t> dims);
/// The same, the exception being the axis named by `attr`.
AxisMap same_except_axis(const Node& node, std::string_view attr);
/// Operators that keep all but the last `count` dimensions of the first operand in place.
AxisMap same_except_last(const Node& node, int64_t count);
/// Operators on images: batch and channels in place, height and width whole. Reads `layout`.
AxisMap image_axes(const Node& node);
/// Reductions over the attribute `dims` with `keepdim`.
AxisMap reduction_axes(const Node& node, std::span<const int64_t> dims);

}  // namespace downhaul

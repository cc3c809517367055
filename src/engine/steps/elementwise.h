#pragma once

#include <optional>
#include <vector>

#include "engine/plan.h"
#include "kernels/elementwise/elementwise.h"

/// The IR's elementwise operators as those of the kernels.
namespace downhaul::engine {

/// Both enumerations list the same types in the same order.
kernels::Element element_of(DType dtype);

struct UnaryCall {
  kernels::UnaryOp op;
  kernels::UnaryParams params;
};
std::optional<UnaryCall> unary_call(const Node& node);
std::optional<kernels::BinaryOp> binary_op(const Node& node);

/// The view under larger sizes, aligned at the right; what is repeated has stride 0.
View broadcast_view(const View& view, const Sizes& sizes);
/// A row-major result and operands that broadcast to it; nothing when they need too many loops.
std::optional<kernels::Loops> loops_over(const Sizes& sizes, const std::vector<View>& operands);

}  // namespace downhaul::engine

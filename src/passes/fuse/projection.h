#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

/// What the rewrites that fold arithmetic into weights know about linear and the convolutions.
namespace downhaul {

/// The node when `value` is a linear, conv2d or conv_transpose2d with constant floating-point
/// weight and bias (or none) and no other use.
Node* foldable_projection(const Value* value);
/// The dimension of its result that holds output channels.
int64_t channel_axis(const Node& projection);
int64_t num_channels(const Node& projection);

/// The same projection with result · scale + shift, per output channel.
Value* fold_affine(Node& projection, const std::vector<double>& scale,
                   const std::vector<double>& shift, Builder& b);

}  // namespace downhaul

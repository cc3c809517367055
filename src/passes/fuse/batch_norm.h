#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace downhaul {

/// x · scale + shift, per channel.
struct Affine {
  std::vector<double> scale;
  std::vector<double> shift;
};

/// What a batch_norm with constant statistics does to each channel; nullopt when one is computed.
std::optional<Affine> affine_of_batch_norm(const Node& node);

}  // namespace downhaul

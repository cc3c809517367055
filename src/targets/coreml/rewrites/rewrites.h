#pragma once

#include <vector>

#include "rewrite/rewrite.h"

/// What a canonical graph needs so that Core ML has every operator, and what re-expresses it for
/// the Apple Neural Engine.
namespace downhaul::coreml {

#define DH_REWRITE(symbol) extern const Rewrite symbol;
#include "targets/coreml/rewrites/rewrites.inc"
#undef DH_REWRITE

/// All of them, in the order of rewrites.inc.
std::vector<const Rewrite*> rewrites();

/// What is added to the score of a key that is masked out: far below any score, and a half.
inline constexpr double kMasked = -1e4;
/// Smallest eps of a norm on the Neural Engine: smaller ones are 0 as a half.
inline constexpr double kSmallestEps = 1e-7;

/// Sequences [B, S, C] laid out as [B, C, 1, S] through linear layers, norms, attention and what is
/// between: linear becomes a 1x1 convolution, layer_norm channel_norm, attention a chain of small
/// operators for each head with softmax over axis 1. Masks become sums with kMasked, eps at least
/// kSmallestEps. What is not a sequence stays. Returns the number of converted nodes.
Result<int> assign_bc1s(Graph& graph);

/// Outputs that are such sequences at least as wide as the model's norms are given as [B, C, 1, S]:
/// hidden states, scores of a vocabulary.
Result<int> keep_wide_outputs(Graph& graph);

}  // namespace downhaul::coreml

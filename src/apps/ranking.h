#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace downhaul {

struct Ranked {
  int64_t index = 0;
  float score = 0;         ///< as the model gave it
  double probability = 0;  ///< softmax over all scores
};

/// The `k` largest scores, largest first, equal ones by index, NaN last; k above the number of
/// scores means all. Probabilities are those of a softmax over all scores, NaN counting as nothing.
std::vector<Ranked> top_k(std::span<const float> scores, int64_t k);

}  // namespace downhaul

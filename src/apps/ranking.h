#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json/json.h"

namespace downhaul {

struct Ranked {
  int64_t index = 0;
  float score = 0;         ///< as the model gave it
  double probability = 0;  ///< softmax over all scores
};

/// The `k` largest scores, largest first, equal ones by index, NaN last; k above the number of
/// scores means all. Probabilities are those of a softmax over all scores, NaN counting as nothing.
std::vector<Ranked> top_k(std::span<const float> scores, int64_t k);

/// Appends one object for each of `ranked` to the array at the writer's place: the index as
/// `number`, its name as `text`, score and probability.
void write_json(std::span<const Ranked> ranked, std::string_view number, std::string_view text,
                const std::function<std::string(int64_t index)>& name, JsonWriter& json);

}  // namespace downhaul

#include "apps/ranking.h"

#include <algorithm>
#include <cmath>

namespace downhaul {

std::vector<Ranked> top_k(std::span<const float> scores, int64_t k) {
  std::vector<Ranked> all;
  all.reserve(scores.size());
  float largest = -INFINITY;
  for (size_t i = 0; i < scores.size(); ++i) {
    all.push_back({static_cast<int64_t>(i), scores[i], 0});
    if (scores[i] > largest) largest = scores[i];
  }
  double sum = 0;
  for (Ranked& r : all) {
    // Two infinite scores share the whole; inf - inf would be NaN.
    r.probability = std::isnan(r.score)  ? 0
                    : r.score == largest ? 1
                                         : std::exp(double{r.score} - double{largest});
    sum += r.probability;
  }
  const auto count =
      static_cast<ptrdiff_t>(std::clamp<int64_t>(k, 0, static_cast<int64_t>(all.size())));
  std::partial_sort(all.begin(), all.begin() + count, all.end(),
                    [](const Ranked& a, const Ranked& b) {
                      const bool nan_a = std::isnan(a.score);
                      const bool nan_b = std::isnan(b.score);
                      if (nan_a != nan_b) return nan_b;
                      return !nan_a && a.score != b.score ? a.score > b.score : a.index < b.index;
                    });
  all.resize(static_cast<size_t>(count));
  for (Ranked& r : all) r.probability = sum > 0 ? r.probability / sum : 0;
  return all;
}

void write_json(std::span<const Ranked> ranked, std::string_view number, std::string_view text,
                const std::function<std::string(int64_t index)>& name, JsonWriter& json) {
  for (const Ranked& r : ranked) {
    json.begin_object();
    json.field(number, r.index);
    json.field(text, name(r.index));
    json.field("score", r.score);
    json.field("probability", r.probability);
    json.end_object();
  }
}

}  // namespace downhaul

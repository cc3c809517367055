#include "apps/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/strings.h"

namespace downhaul {

Result<Sampler> Sampler::make(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    return invalid_argument(cat("temperature: expected 0 or more, found ", options.temperature));
  }
  if (options.top_k < 0) {
    return invalid_argument(cat("top-k: expected 0 or more, found ", options.top_k));
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return invalid_argument(cat("top-p: expected above 0, at most 1, found ", options.top_p));
  }
  return Sampler(options);
}

Result<int64_t> Sampler::pick(std::span<const float> scores) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  int64_t best = -1;
  float top = kNever;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > top) {
      top = scores[i];
      best = static_cast<int64_t>(i);
    }
  }
  if (best < 0) return invalid_argument("the model gives no token a score");
  if (options_.temperature == 0 || std::isinf(top)) return best;
  const auto score = [&](int64_t i) {
    const float s = scores[static_cast<size_t>(i)];
    return std::isnan(s) ? kNever : s;
  };
  order_.resize(scores.size());
  std::iota(order_.begin(), order_.end(), int64_t{0});
  const auto larger = [&](int64_t a, int64_t b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  };
  if (options_.top_k > 0 && static_cast<size_t>(options_.top_k) < order_.size()) {
    std::nth_element(order_.begin(), order_.begin() + options_.top_k, order_.end(), larger);
    order_.resize(static_cast<size_t>(options_.top_k));
  }
  std::sort(order_.begin(), order_.end(), larger);
  weights_.clear();
  double sum = 0;
  for (const int64_t i : order_) {
    const double difference = static_cast<double>(score(i)) - static_cast<double>(top);
    weights_.push_back(std::exp(difference / options_.temperature));
    sum += weights_.back();
  }
  size_t kept = 0;
  double kept_sum = 0;
  while (kept < weights_.size() && (kept == 0 || kept_sum < options_.top_p * sum)) {
    kept_sum += weights_[kept++];
  }
  // 53 bits, the same everywhere; the distributions of <random> are not.
  const double draw = static_cast<double>(random_() >> 11) * 0x1p-53 * kept_sum;
  double before = 0;
  for (size_t i = 0; i < kept; ++i) {
    before += weights_[i];
    if (draw < before) return order_[i];
  }
  return order_[kept - 1];
}

}  // namespace downhaul

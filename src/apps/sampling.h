#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "base/status.h"

/// Which token follows.
namespace downhaul {

struct SamplingOptions {
  double temperature = 0;  ///< scores are divided by it; 0: always the largest
  int64_t top_k = 0;       ///< only the k largest; 0: all
  double top_p = 1;        ///< of these, the fewest whose probabilities sum up to it
  uint64_t seed = 0;       ///< the same on every machine
};

class Sampler {
 public:
  /// Errors: kInvalidArgument for a negative or infinite temperature, a top_k below 0, a top_p
  /// outside (0, 1].
  static Result<Sampler> make(const SamplingOptions& options);

  /// Index of the token; of equal scores the first is the larger one. NaN counts as minus infinity.
  /// Errors: kInvalidArgument when no score is above that.
  Result<int64_t> pick(std::span<const float> scores);

 private:
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}
  SamplingOptions options_;
  std::mt19937_64 random_;
  std::vector<int64_t> order_;
  std::vector<double> weights_;
};

}  // namespace downhaul

#include "report/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/status.h"

namespace downhaul {
namespace {

double sorted_median(const std::vector<double>& v) {
  const size_t n = v.size();
  return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/// splitmix64: the same numbers on every machine.
class Random {
 public:
  size_t below(size_t n) {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<size_t>((z ^ (z >> 31)) % n);
  }

 private:
  uint64_t state_ = 0;
};

/// As many values, from blocks of consecutive ones; the series is taken as a circle.
double resampled_median(const std::vector<double>& series, Random& random) {
  const size_t n = series.size();
  const auto block = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(n))));
  std::vector<double> drawn;
  drawn.reserve(n + block);
  while (drawn.size() < n) {
    const size_t begin = random.below(n);
    for (size_t i = 0; i < block; ++i) drawn.push_back(series[(begin + i) % n]);
  }
  drawn.resize(n);
  return median_of(std::move(drawn));
}

}  // namespace

double median_of(std::vector<double> series) {
  if (series.empty()) return 0;
  std::sort(series.begin(), series.end());
  return sorted_median(series);
}

TimeSummary summarise(std::vector<double> series) {
  TimeSummary s;
  if (series.empty()) return s;
  std::sort(series.begin(), series.end());
  for (const double v : series) s.mean += v;
  s.mean /= static_cast<double>(series.size());
  s.median = sorted_median(series);
  s.min = series.front();
  s.max = series.back();
  s.p95 = series[(series.size() * 95 + 99) / 100 - 1];
  for (double& v : series) v = std::abs(v - s.median);
  s.mad = median_of(std::move(series));
  return s;
}

RatioEstimate estimate_ratio(const std::vector<double>& first, const std::vector<double>& second) {
  DH_CHECK(!first.empty() && !second.empty());
  RatioEstimate out;
  out.ratio = median_of(second) / median_of(first);
  constexpr size_t kRounds = 2000;
  Random random;
  std::vector<double> ratios;
  for (size_t i = 0; i < kRounds; ++i) {
    const double below = resampled_median(first, random);
    ratios.push_back(resampled_median(second, random) / below);
  }
  std::sort(ratios.begin(), ratios.end());
  out.low = ratios[kRounds * 25 / 1000];
  out.high = ratios[kRounds * 975 / 1000 - 1];
  const bool excludes_one = out.low > 1 || out.high < 1;
  out.beyond_noise = excludes_one && std::abs(out.ratio - 1) > RatioEstimate::kLeast;
  return out;
}

}  // namespace downhaul

#pragma once

#include <cstdint>
#include <vector>

/// Numbers about series of measured times.
namespace downhaul {

struct TimeSummary {
  double mean = 0, median = 0, min = 0, max = 0;
  double p95 = 0;  ///< smallest value that at least 95 % of the series do not exceed
  double mad = 0;  ///< median distance to the median
};

/// All zero for an empty series.
TimeSummary summarise(std::vector<double> series);

/// Of a series that need not be sorted; the mean of the two middle ones when their number is even.
double median_of(std::vector<double> series);

/// Is the second series slower or faster than the first, beyond their noise?
struct RatioEstimate {
  double ratio = 1;           ///< of the medians, second / first
  double low = 1, high = 1;   ///< where the ratio lies with 95 % confidence
  bool beyond_noise = false;  ///< the interval excludes 1, and the ratio is more than kLeast off
  /// Two runs of one program differ by as much through nothing but where memory came to lie.
  static constexpr double kLeast = 0.01;
};

/// Bootstrap of the medians: 2000 times, both series are drawn anew from their own blocks of
/// consecutive values (sqrt(n) long, so that slow drift and bursts of other work count as noise),
/// from a fixed seed. Both series must have values (DH_CHECK).
RatioEstimate estimate_ratio(const std::vector<double>& first, const std::vector<double>& second);

}  // namespace downhaul

#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace downhaul {
namespace {

/// Sums that pairs of elements leave behind.
struct Sums {
  int64_t pairs = 0;
  double small = 0;  ///< largest difference where |a| is up to kLarge
  double large = 0;  ///< largest difference elsewhere, relative to |a|
  double abs = 0, squares = 0, aa = 0, bb = 0, ab = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
};

void add_pair(double x, double y, int64_t index, TensorMetrics& m, Sums& s) {
  const bool finite_x = std::isfinite(x);
  const bool finite_y = std::isfinite(y);
  m.not_finite_a += !finite_x;
  m.not_finite_b += !finite_y;
  if (finite_x) {
    m.magnitude = std::max(m.magnitude, std::abs(x));
    if (std::abs(x) <= kLarge) m.scale = std::max(m.scale, std::abs(x));
  }
  if (!finite_x || !finite_y) {
    if (x == y || (std::isnan(x) && std::isnan(y))) return;
    ++m.unequal;
    if (m.not_finite_unequal++ == 0) {
      m.worst = index;
      m.worst_a = x;
      m.worst_b = y;
    }
    return;
  }
  const double d = std::abs(x - y);
  m.unequal += x != y;
  if (std::abs(x) <= kLarge) {
    s.small = std::max(s.small, d);
  } else {
    s.large = std::max(s.large, d / std::abs(x));
  }
  ++s.pairs;
  s.abs += d;
  s.squares += d * d;
  s.aa += x * x;
  s.bb += y * y;
  s.ab += x * y;
  s.low = std::min(s.low, x);
  s.high = std::max(s.high, x);
  if (d > m.max_abs) {
    m.max_abs = d;
    if (m.not_finite_unequal == 0) {
      m.worst = index;
      m.worst_a = x;
      m.worst_b = y;
    }
  }
}

void finish(TensorMetrics& m, const Sums& s) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  m.psnr = m.unequal > 0 && s.pairs == 0 ? std::numeric_limits<double>::quiet_NaN() : kInf;
  if (s.pairs == 0) return;
  const auto pairs = static_cast<double>(s.pairs);
  m.mean_abs = s.abs / pairs;
  if (m.max_abs > 0) {
    m.relative = s.small > 0 ? s.small / m.scale : 0;  // infinite where a is 0
    m.relative = std::max(m.relative, s.large);
    m.relative_l2 = s.aa > 0 ? std::sqrt(s.squares / s.aa) : kInf;
    const double range = s.high > s.low ? s.high - s.low : m.magnitude;
    // A mean square that underflows to 0 is a difference beyond any measure.
    const double mean = s.squares / pairs;
    m.psnr = mean > 0 ? 10 * std::log10(range * range / mean) : kInf;
  }
  if (s.aa > 0 && s.bb > 0) {
    // Rounding of the sums must not make two equal directions look like more than one.
    m.cosine = std::clamp(s.ab / (std::sqrt(s.aa) * std::sqrt(s.bb)), -1.0, 1.0);
  } else {
    m.cosine = s.aa == s.bb ? 1 : 0;
  }
}

/// The axis read as [outer, n, inner].
struct Lines {
  int64_t outer = 1, n = 1, inner = 1;
  Lines(const Sizes& sizes, int64_t axis) : n(sizes[static_cast<size_t>(axis)]) {
    for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d) {
      if (d < axis) outer *= sizes[static_cast<size_t>(d)];
      if (d > axis) inner *= sizes[static_cast<size_t>(d)];
    }
  }
};

std::vector<int64_t> argmax_along(const Tensor& t, int64_t axis) {
  const Lines lines(t.sizes(), axis);
  std::vector<int64_t> out;
  out.reserve(static_cast<size_t>(lines.outer * lines.inner));
  for (int64_t o = 0; o < lines.outer; ++o) {
    for (int64_t i = 0; i < lines.inner; ++i) {
      int64_t best = 0;
      double value = t.at(o * lines.n * lines.inner + i);
      for (int64_t k = 1; k < lines.n && !std::isnan(value); ++k) {
        const double v = t.at((o * lines.n + k) * lines.inner + i);
        if (v > value || std::isnan(v)) {
          value = v;
          best = k;
        }
      }
      out.push_back(best);
    }
  }
  return out;
}

MaskOverlap overlap_of(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  struct Count {
    int64_t both = 0, either = 0;
  };
  std::map<int64_t, Count> counts;
  for (size_t i = 0; i < a.size(); ++i) {
    ++counts[a[i]].either;
    if (a[i] == b[i]) {
      ++counts[a[i]].both;
    } else {
      ++counts[b[i]].either;
    }
  }
  MaskOverlap out;
  double sum = 0;
  for (const auto& [label, count] : counts) {
    const double iou = static_cast<double>(count.both) / static_cast<double>(count.either);
    sum += iou;
    out.lowest = std::min(out.lowest, iou);
  }
  out.classes = static_cast<int64_t>(counts.size());
  if (out.classes > 0) out.mean = sum / static_cast<double>(out.classes);
  return out;
}

std::vector<int64_t> integers_of(const Tensor& t) {
  std::vector<int64_t> out(static_cast<size_t>(t.num_elements()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = t.int_at(static_cast<int64_t>(i));
  return out;
}

}  // namespace

TensorMetrics compare_tensors(const Tensor& a, const Tensor& b) {
  DH_CHECK(a.sizes() == b.sizes());
  TensorMetrics m;
  m.elements = a.num_elements();
  const bool integers = !is_float(a.dtype()) && !is_float(b.dtype());
  Sums sums;
  for (int64_t i = 0; i < m.elements; ++i) {
    add_pair(a.at(i), b.at(i), i, m, sums);
    // Doubles cannot tell neighbours above 2^53 apart.
    if (integers && a.int_at(i) != b.int_at(i) && a.at(i) == b.at(i)) ++m.unequal;
  }
  finish(m, sums);
  if (m.elements == 0) return m;
  if (integers) {
    if (a.rank() == 3 && is_integer(a.dtype())) {
      m.overlap = overlap_of(integers_of(a), integers_of(b));
    }
    return m;
  }
  const bool image = a.rank() == 4 && a.size(1) > 1;
  if (!image && (a.rank() == 0 || a.size(a.rank() - 1) < 2)) return m;
  const int64_t axis = image ? 1 : a.rank() - 1;
  const std::vector<int64_t> top_a = argmax_along(a, axis);
  const std::vector<int64_t> top_b = argmax_along(b, axis);
  Agreement agreement{.axis = axis, .rows = static_cast<int64_t>(top_a.size())};
  for (size_t i = 0; i < top_a.size(); ++i) agreement.equal += top_a[i] == top_b[i];
  m.argmax = agreement;
  if (image) m.overlap = overlap_of(top_a, top_b);
  return m;
}

}  // namespace downhaul

#include "dialects/mil/compress.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace downhaul::coreml {
namespace {

constexpr int64_t kStep = 1 << 16;  // elements read at a time
constexpr float kLargestHalf = 65504.0F;
constexpr int kLargestInt8 = 127;
constexpr int kIterations = 50;

/// Calls f(first index, floats) for all elements, a stretch at a time.
template <typename F>
Status for_stretches(const Tensor& t, F f) {
  const MappedFile* file = t.storage()->file();
  const int64_t elements = t.num_elements();
  for (int64_t at = 0; at < elements; at += kStep) {
    const int64_t count = std::min(kStep, elements - at);
    DH_TRY(f(at, std::span<const float>(t.data<float>() + at, static_cast<size_t>(count))));
    if (file != nullptr) {
      file->release(
          t.bytes().subspan(static_cast<uint64_t>(4 * at), static_cast<uint64_t>(4 * count)));
    }
  }
  return {};
}

/// float_to_half that saturates, in a form that the loop over all weights of a model can inline: it
/// is what writing a package mostly does.
inline uint16_t rounded(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x38800000 && magnitude <= 0x477fe000) {
    const uint32_t odd = magnitude >> 13 & 1;
    return static_cast<uint16_t>(sign | (magnitude + 0xc8000fff + odd) >> 13);
  }
  if (magnitude > 0x477fe000 && magnitude < 0x7f800000) return sign | 0x7bff;
  return float_to_half(value);
}

int64_t elements_behind_first(const Tensor& t) {
  return t.size(0) == 0 ? 0 : t.num_elements() / t.size(0);
}

}  // namespace

uint16_t half_of(float value) { return rounded(value); }

void to_halves(std::span<const float> from, uint16_t* to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = rounded(from[i]);
}

std::vector<uint16_t> int8_scales(const Tensor& weight) {
  const int64_t width = elements_behind_first(weight);
  std::vector<float> largest(static_cast<size_t>(weight.size(0)), 0);
  (void)for_stretches(weight, [&](int64_t at, std::span<const float> values) -> Status {
    for (size_t i = 0; i < values.size(); ++i) {
      float& most = largest[static_cast<size_t>((at + static_cast<int64_t>(i)) / width)];
      const float magnitude = std::fabs(values[i]);
      if (magnitude <= kLargestHalf) most = std::max(most, magnitude);
    }
    return {};
  });
  std::vector<uint16_t> scales;
  for (const float most : largest) {
    uint16_t scale = half_of(most / kLargestInt8);
    // Rounded down, the largest weight would not fit; and 0 is no scale.
    if (half_to_float(scale) * kLargestInt8 < most || scale == 0) ++scale;
    scales.push_back(scale);
  }
  return scales;
}

Status write_int8(const Tensor& weight, const std::vector<uint16_t>& scales, OutputFile& out) {
  const int64_t width = elements_behind_first(weight);
  std::vector<uint8_t> bytes;
  return for_stretches(weight, [&](int64_t at, std::span<const float> values) {
    bytes.clear();
    for (size_t i = 0; i < values.size(); ++i) {
      const float scale =
          half_to_float(scales[static_cast<size_t>((at + static_cast<int64_t>(i)) / width)]);
      const float q = std::nearbyint(values[i] / scale);
      const auto kept = static_cast<int8_t>(
          std::isnan(q) ? 0 : std::clamp<float>(q, -kLargestInt8, kLargestInt8));
      bytes.push_back(static_cast<uint8_t>(kept));
    }
    return out.write(bytes);
  });
}

Palette palette_of(const Tensor& weight, int bits) {
  // All halves in ascending order of their values; those that are no numbers count as 0.
  constexpr uint32_t kHalves = 1 << 16;
  std::vector<int64_t> counts(kHalves, 0);
  (void)for_stretches(weight, [&](int64_t, std::span<const float> values) -> Status {
    for (const float v : values) ++counts[std::isfinite(v) ? half_of(v) : 0];
    return {};
  });
  struct Seen {
    double value;
    int64_t count;
  };
  std::vector<Seen> seen;
  for (uint32_t h = 0xfbff; h >= 0x8000; --h) {
    if (counts[h] > 0) seen.push_back({half_to_float(static_cast<uint16_t>(h)), counts[h]});
  }
  for (uint32_t h = 0; h < 0x7c00; ++h) {
    if (counts[h] > 0) seen.push_back({half_to_float(static_cast<uint16_t>(h)), counts[h]});
  }
  const size_t k = size_t{1} << bits;
  std::vector<double> centres(k, 0);
  // In the middle of equal shares of the weights.
  int64_t passed = 0;
  size_t at = 0;
  for (size_t c = 0; c < k; ++c) {
    const double wanted = (static_cast<double>(c) + 0.5) / static_cast<double>(k) *
                          static_cast<double>(weight.num_elements());
    while (at + 1 < seen.size() && static_cast<double>(passed + seen[at].count) < wanted) {
      passed += seen[at++].count;
    }
    if (!seen.empty()) centres[c] = seen[at].value;
  }
  for (int round = 0; round < kIterations; ++round) {
    std::vector<double> sums(k, 0), totals(k, 0);
    size_t c = 0;
    for (const Seen& s : seen) {
      while (c + 1 < k && std::fabs(centres[c + 1] - s.value) <= std::fabs(centres[c] - s.value))
        ++c;
      sums[c] += s.value * static_cast<double>(s.count);
      totals[c] += static_cast<double>(s.count);
    }
    bool moved = false;
    for (size_t i = 0; i < k; ++i) {
      if (totals[i] == 0) continue;
      const double mean = sums[i] / totals[i];
      moved = moved || mean != centres[i];
      centres[i] = mean;
    }
    std::sort(centres.begin(), centres.end());
    if (!moved) break;
  }
  Palette out;
  out.bits = bits;
  for (const double c : centres) out.entries.push_back(half_of(static_cast<float>(c)));
  out.nearest.assign(kHalves, 0);
  for (uint32_t h = 0; h < kHalves; ++h) {
    const float value = half_to_float(static_cast<uint16_t>(h));
    size_t best = 0;
    for (size_t i = 1; std::isfinite(value) && counts[h] > 0 && i < k; ++i) {
      if (std::fabs(half_to_float(out.entries[i]) - value) <
          std::fabs(half_to_float(out.entries[best]) - value)) {
        best = i;
      }
    }
    out.nearest[h] = static_cast<uint8_t>(best);
  }
  return out;
}

Status write_palette(const Tensor& weight, const Palette& palette, OutputFile& out) {
  std::vector<uint8_t> bytes;
  uint32_t pending = 0;
  int have = 0;
  DH_TRY(for_stretches(weight, [&](int64_t, std::span<const float> values) {
    bytes.clear();
    for (const float v : values) {
      const uint16_t half = std::isfinite(v) ? half_of(v) : 0;
      pending |= static_cast<uint32_t>(palette.nearest[half]) << have;
      have += palette.bits;
      while (have >= 8) {
        bytes.push_back(static_cast<uint8_t>(pending));
        pending >>= 8;
        have -= 8;
      }
    }
    return out.write(bytes);
  }));
  if (have > 0) {
    bytes.assign(1, static_cast<uint8_t>(pending));
    DH_TRY(out.write(bytes));
  }
  return {};
}

}  // namespace downhaul::coreml

#include "image/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/parallel.h"

namespace downhaul {
namespace {

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

/// The interpolation kernels, on a distance in source pixels (not yet widened).
double kernel(Interpolation interpolation, double x) {
  x = std::abs(x);
  switch (interpolation) {
    case Interpolation::kNearest:
    case Interpolation::kBox:
      return x <= 0.5 ? 1 : 0;
    case Interpolation::kBilinear:
      return std::max(1 - x, 0.0);
    case Interpolation::kBicubic: {
      constexpr double a = -0.5;  // Keys' value, exact for quadratics
      if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
      if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
      return 0;
    }
    case Interpolation::kLanczos:
      return x < 3 ? sinc(x) * sinc(x / 3) : 0;
  }
  return 0;
}

double radius(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::kNearest:
    case Interpolation::kBox:
      return 0.5;
    case Interpolation::kBilinear:
      return 1;
    case Interpolation::kBicubic:
      return 2;
    case Interpolation::kLanczos:
      return 3;
  }
  return 0;
}

/// Which source samples make result sample i, and their weights, which sum to 1.
struct Taps {
  struct Range {
    int64_t first;
    int64_t count;
  };
  int64_t width = 0;  ///< weights held for each result
  std::vector<Range> ranges;
  std::vector<double> weights;
};

Taps make_taps(int64_t from, int64_t to, Interpolation interpolation) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double widening = std::max(scale, 1.0);
  const double reach = radius(interpolation) * widening;
  Taps taps;
  taps.width = static_cast<int64_t>(std::ceil(reach)) * 2 + 1;
  taps.weights.resize(static_cast<size_t>(to * taps.width));
  for (int64_t i = 0; i < to; ++i) {
    double* weights = &taps.weights[static_cast<size_t>(i * taps.width)];
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    if (interpolation == Interpolation::kNearest) {
      taps.ranges.push_back({std::min(static_cast<int64_t>(centre), from - 1), 1});
      weights[0] = 1;
      continue;
    }
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - reach + 0.5), 0);
    const int64_t last = std::min<int64_t>(static_cast<int64_t>(centre + reach + 0.5), from);
    double sum = 0;
    for (int64_t k = first; k < last; ++k) {
      const double distance = (static_cast<double>(k) - centre + 0.5) / widening;
      sum += weights[k - first] = kernel(interpolation, distance);
    }
    for (int64_t k = first; sum != 0 && k < last; ++k) weights[k - first] /= sum;
    taps.ranges.push_back({first, last - first});
  }
  return taps;
}

// Two bits for sums beyond the range of a sample, eight for the sample itself.
constexpr int kWeightBits = 32 - 8 - 2;

std::vector<int32_t> rounded(const std::vector<double>& weights) {
  std::vector<int32_t> result;
  result.reserve(weights.size());
  for (const double w : weights) {
    result.push_back(static_cast<int32_t>(w * (1 << kWeightBits) + (w < 0 ? -0.5 : 0.5)));
  }
  return result;
}

uint8_t sample_of(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}
constexpr int32_t kHalf = 1 << (kWeightBits - 1);

template <int C>
void resize_row(const uint8_t* in, uint8_t* out, const Taps& taps,
                const std::vector<int32_t>& weights) {
  for (size_t x = 0; x < taps.ranges.size(); ++x, out += C) {
    const auto [first, count] = taps.ranges[x];
    const int32_t* w = &weights[x * static_cast<size_t>(taps.width)];
    const uint8_t* p = in + first * C;
    int32_t sums[C];
    for (int32_t& s : sums) s = kHalf;
    for (int64_t k = 0; k < count; ++k, p += C) {
      for (int c = 0; c < C; ++c) sums[c] += p[c] * w[k];
    }
    for (int c = 0; c < C; ++c) out[c] = sample_of(sums[c]);
  }
}

Image resize_rows(const Image& image, int64_t width, Interpolation interpolation) {
  const Taps taps = make_taps(image.width, width, interpolation);
  const std::vector<int32_t> weights = rounded(taps.weights);
  Image out(width, image.height, image.channels);
  const auto row = image.channels == 1   ? resize_row<1>
                   : image.channels == 3 ? resize_row<3>
                                         : resize_row<4>;
  parallel_for(image.height, 16, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) row(image.row(y), out.row(y), taps, weights);
  });
  return out;
}

Image resize_columns(const Image& image, int64_t height, Interpolation interpolation) {
  const Taps taps = make_taps(image.height, height, interpolation);
  const std::vector<int32_t> weights = rounded(taps.weights);
  Image out(image.width, height, image.channels);
  const int64_t stride = image.width * image.channels;
  parallel_for(height, 16, [&](int64_t begin, int64_t end) {
    std::vector<int32_t> sums(static_cast<size_t>(stride));
    for (int64_t y = begin; y < end; ++y) {
      const auto [first, count] = taps.ranges[static_cast<size_t>(y)];
      std::fill(sums.begin(), sums.end(), kHalf);
      for (int64_t k = 0; k < count; ++k) {
        const int32_t w = weights[static_cast<size_t>(y * taps.width + k)];
        const uint8_t* p = image.row(first + k);
        for (int64_t x = 0; x < stride; ++x) sums[static_cast<size_t>(x)] += p[x] * w;
      }
      uint8_t* to = out.row(y);
      for (int64_t x = 0; x < stride; ++x) to[x] = sample_of(sums[static_cast<size_t>(x)]);
    }
  });
  return out;
}

}  // namespace

std::optional<Interpolation> interpolation_from_name(std::string_view name) {
  constexpr std::string_view kEnumeration = "InterpolationMode.";
  std::string lower;
  if (name.starts_with(kEnumeration)) name.remove_prefix(kEnumeration.size());
  for (const char c : name) {
    lower.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  if (lower == "nearest" || lower == "nearest-exact") return Interpolation::kNearest;
  if (lower == "box") return Interpolation::kBox;
  if (lower == "bilinear") return Interpolation::kBilinear;
  if (lower == "bicubic") return Interpolation::kBicubic;
  if (lower == "lanczos") return Interpolation::kLanczos;
  return std::nullopt;
}

Image resize(const Image& image, int64_t width, int64_t height, Interpolation interpolation) {
  DH_CHECK(width > 0 && height > 0 && image.width > 0 && image.height > 0);
  // A pass that changes nothing would only copy. Of two passes the rows go first, unless they grow
  // and the columns shrink: then less is left to do, and Pillow (since 12) does so too. The order
  // shows where a filter with negative weights overshoots, since each pass clamps.
  const bool columns_first = width > image.width && height < image.height;
  const Image* current = &image;
  Image rows, columns;
  const auto columns_pass = [&] {
    if (current->height == height) return;
    columns = resize_columns(*current, height, interpolation);
    current = &columns;
  };
  if (columns_first) columns_pass();
  if (current->width != width) {
    rows = resize_rows(*current, width, interpolation);
    current = &rows;
  }
  columns_pass();
  return *current;
}

std::vector<float> resize_plane(const std::vector<float>& plane, int64_t from_width,
                                int64_t from_height, int64_t width, int64_t height,
                                Interpolation interpolation) {
  DH_CHECK(width > 0 && height > 0);
  const Taps across = make_taps(from_width, width, interpolation);
  const Taps down = make_taps(from_height, height, interpolation);
  std::vector<float> rows(static_cast<size_t>(from_height * width));
  parallel_for(from_height, 16, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        const auto [first, count] = across.ranges[static_cast<size_t>(x)];
        const double* w = &across.weights[static_cast<size_t>(x * across.width)];
        double sum = 0;
        for (int64_t k = 0; k < count; ++k) {
          sum += w[k] * plane[static_cast<size_t>(y * from_width + first + k)];
        }
        rows[static_cast<size_t>(y * width + x)] = static_cast<float>(sum);
      }
    }
  });
  std::vector<float> out(static_cast<size_t>(height * width));
  parallel_for(height, 16, [&](int64_t begin, int64_t end) {
    for (int64_t y = begin; y < end; ++y) {
      const auto [first, count] = down.ranges[static_cast<size_t>(y)];
      for (int64_t k = 0; k < count; ++k) {
        const auto w = static_cast<float>(down.weights[static_cast<size_t>(y * down.width + k)]);
        const float* from = &rows[static_cast<size_t>((first + k) * width)];
        float* to = &out[static_cast<size_t>(y * width)];
        for (int64_t x = 0; x < width; ++x) to[x] += w * from[x];
      }
    }
  });
  return out;
}

}  // namespace downhaul

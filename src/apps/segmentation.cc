#include "apps/segmentation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/strings.h"
#include "image/resize.h"

namespace downhaul {
namespace {

/// The visible part of the model's input, in pixels of a map that may be of another size.
struct Window {
  int64_t left, top, width, height;
};
Window visible(const ClassMap& map, const Placement& p) {
  const auto scaled = [](int64_t v, int64_t from, int64_t to) {
    return static_cast<int64_t>(
        std::llround(static_cast<double>(v) * static_cast<double>(to) / static_cast<double>(from)));
  };
  Window w{};
  w.left = scaled(p.left, p.input_width, map.width);
  w.top = scaled(p.top, p.input_height, map.height);
  w.width = std::clamp<int64_t>(scaled(p.left + p.width, p.input_width, map.width) - w.left, 0,
                                map.width - w.left);
  w.height = std::clamp<int64_t>(scaled(p.top + p.height, p.input_height, map.height) - w.top, 0,
                                 map.height - w.top);
  return w;
}

}  // namespace

Result<ClassMap> best_classes(const Tensor& scores, int64_t expected_classes) {
  const auto refuse = [&](std::string_view expected) {
    return invalid_argument(
        cat("the output is ", describe(scores), ", expected class scores ", expected));
  };
  if (scores.dtype() != DType::kF32 || scores.rank() != 4 || scores.size(0) != 1) {
    return refuse("f32[1,classes,height,width]");
  }
  if (expected_classes != 0 && scores.size(1) != expected_classes) {
    return refuse(cat("of ", expected_classes, " classes, as many as there are labels"));
  }
  if (scores.size(1) < 2) return refuse("of 2 classes or more");
  ClassMap map{scores.size(2), scores.size(3), scores.size(1), {}};
  const int64_t plane = map.height * map.width;
  map.classes.assign(static_cast<size_t>(plane), 0);
  std::vector<float> best(static_cast<size_t>(plane), -INFINITY);
  const float* value = scores.data<float>();
  for (int64_t c = 0; c < map.num_classes; ++c) {
    for (int64_t i = 0; i < plane; ++i, ++value) {
      if (*value > best[static_cast<size_t>(i)]) {
        best[static_cast<size_t>(i)] = *value;
        map.classes[static_cast<size_t>(i)] = static_cast<int32_t>(c);
      }
    }
  }
  return map;
}

std::vector<ClassShare> class_shares(const ClassMap& map, const Placement& placement) {
  const Window window = visible(map, placement);
  std::map<int64_t, int64_t> counts;
  for (int64_t y = 0; y < window.height; ++y) {
    const int32_t* row = &map.classes[static_cast<size_t>((window.top + y) * map.width)];
    for (int64_t x = 0; x < window.width; ++x) ++counts[row[window.left + x]];
  }
  std::vector<ClassShare> shares;
  const auto whole = static_cast<double>(window.width * window.height);
  for (const auto& [id, pixels] : counts) {
    shares.push_back({id, pixels, static_cast<double>(pixels) / whole});
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const ClassShare& a, const ClassShare& b) { return a.pixels > b.pixels; });
  return shares;
}

std::optional<int64_t> main_class(const std::vector<ClassShare>& shares) {
  for (const ClassShare& s : shares) {
    if (s.id != 0) return s.id;
  }
  return std::nullopt;
}

Image class_alpha(const ClassMap& map, const Placement& p, int64_t id) {
  Image alpha(p.picture_width, p.picture_height, 1);
  const Window window = visible(map, p);
  if (window.width <= 0 || window.height <= 0) return alpha;
  std::vector<float> plane;
  plane.reserve(static_cast<size_t>(window.width * window.height));
  for (int64_t y = 0; y < window.height; ++y) {
    const int32_t* row = &map.classes[static_cast<size_t>((window.top + y) * map.width)];
    for (int64_t x = 0; x < window.width; ++x) plane.push_back(row[window.left + x] == id ? 1 : 0);
  }
  // Where the visible part lies in the picture: all of it unless preprocessing cropped.
  const auto back = [](int64_t at, double offset, double scale, int64_t limit) {
    return std::clamp<int64_t>(std::llround((static_cast<double>(at) - offset) / scale), 0, limit);
  };
  const int64_t left = back(p.left, p.offset_x, p.scale_x, p.picture_width);
  const int64_t top = back(p.top, p.offset_y, p.scale_y, p.picture_height);
  const int64_t right = back(p.left + p.width, p.offset_x, p.scale_x, p.picture_width);
  const int64_t bottom = back(p.top + p.height, p.offset_y, p.scale_y, p.picture_height);
  if (right <= left || bottom <= top) return alpha;
  const std::vector<float> large = resize_plane(plane, window.width, window.height, right - left,
                                                bottom - top, Interpolation::kBilinear);
  const float* value = large.data();
  for (int64_t y = top; y < bottom; ++y) {
    uint8_t* row = alpha.row(y);
    for (int64_t x = left; x < right; ++x) {
      row[x] = static_cast<uint8_t>(std::clamp(*value++ * 255.0f + 0.5f, 0.0f, 255.0f));
    }
  }
  return alpha;
}

Image hard_mask(const Image& alpha) {
  Image mask = alpha;
  for (uint8_t& v : mask.pixels) v = v >= 128 ? 255 : 0;
  return mask;
}

Image overlay(const Image& picture, const Image& alpha, int64_t id) {
  Image out = to_rgb(picture);
  const std::array<uint8_t, 3> color = class_color(id);
  for (size_t i = 0; i < alpha.pixels.size(); ++i) {
    const int weight = alpha.pixels[i];  // of 510: half the colour where alpha is full
    for (size_t c = 0; c < 3; ++c) {
      uint8_t& v = out.pixels[i * 3 + c];
      v = static_cast<uint8_t>((v * (510 - weight) + color[c] * weight + 255) / 510);
    }
  }
  return out;
}

Image cutout(const Image& picture, const Image& alpha) {
  Image out(picture.width, picture.height, 4);
  const Image rgb = to_rgb(picture);
  for (size_t i = 0; i < alpha.pixels.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) out.pixels[i * 4 + c] = rgb.pixels[i * 3 + c];
    // What was transparent before stays so.
    const int own = picture.channels == 4 ? picture.pixels[i * 4 + 3] : 255;
    out.pixels[i * 4 + 3] = static_cast<uint8_t>((own * alpha.pixels[i] + 127) / 255);
  }
  return out;
}

std::array<uint8_t, 3> class_color(int64_t id) {
  std::array<uint8_t, 3> color = {0, 0, 0};
  for (int bit = 7; bit >= 0 && id > 0; --bit, id >>= 3) {
    for (int64_t c = 0; c < 3; ++c) {
      color[static_cast<size_t>(c)] |= static_cast<uint8_t>(((id >> c) & 1) << bit);
    }
  }
  return color;
}

}  // namespace downhaul

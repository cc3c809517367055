#include "image/preprocess.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "image/resize.h"

namespace downhaul {
namespace {

/// A picture on its way, and how it got there.
struct Canvas {
  Image image;
  Placement placement;
};

void resize_to(Canvas& canvas, int64_t width, int64_t height, Interpolation interpolation) {
  const double x = static_cast<double>(width) / static_cast<double>(canvas.image.width);
  const double y = static_cast<double>(height) / static_cast<double>(canvas.image.height);
  canvas.image = resize(canvas.image, width, height, interpolation);
  canvas.placement.scale_x *= x;
  canvas.placement.scale_y *= y;
  canvas.placement.offset_x *= x;
  canvas.placement.offset_y *= y;
}

/// The window at (left, top), which may reach beyond the picture; black there.
void take_window(Canvas& canvas, int64_t left, int64_t top, int64_t width, int64_t height) {
  const Image& from = canvas.image;
  Image to(width, height, from.channels);
  const int64_t x0 = std::max<int64_t>(left, 0);
  const int64_t x1 = std::min(left + width, from.width);
  for (int64_t y = std::max<int64_t>(top, 0); y < std::min(top + height, from.height); ++y) {
    if (x1 <= x0) break;
    std::memcpy(to.row(y - top) + (x0 - left) * from.channels, from.row(y) + x0 * from.channels,
                static_cast<size_t>((x1 - x0) * from.channels));
  }
  canvas.image = std::move(to);
  canvas.placement.offset_x -= static_cast<double>(left);
  canvas.placement.offset_y -= static_cast<double>(top);
}

int64_t middle(int64_t whole, int64_t part) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(whole - part) / 2));
}

void letterbox(Canvas& canvas, int64_t width, int64_t height, Interpolation interpolation) {
  const double scale =
      std::min(static_cast<double>(width) / static_cast<double>(canvas.image.width),
               static_cast<double>(height) / static_cast<double>(canvas.image.height));
  const auto fit = [scale](int64_t side, int64_t limit) {
    return std::clamp<int64_t>(std::llround(static_cast<double>(side) * scale), 1, limit);
  };
  const int64_t w = fit(canvas.image.width, width);
  const int64_t h = fit(canvas.image.height, height);
  resize_to(canvas, w, h, interpolation);
  take_window(canvas, -((width - w) / 2), -((height - h) / 2), width, height);
}

/// The part of the input that shows the picture.
void find_visible(Placement& p) {
  const auto range = [](double offset, double scale, int64_t side, int64_t limit, int64_t& first,
                        int64_t& count) {
    const double end = offset + scale * static_cast<double>(side);
    first = std::clamp<int64_t>(std::llround(offset), 0, limit);
    count = std::clamp<int64_t>(std::llround(end), 0, limit) - first;
  };
  range(p.offset_x, p.scale_x, p.picture_width, p.input_width, p.left, p.width);
  range(p.offset_y, p.scale_y, p.picture_height, p.input_height, p.top, p.height);
}

}  // namespace

Result<PreparedImage> prepare_image(const Image& image, const Preprocessing& how, int64_t height,
                                    int64_t width) {
  if (height <= 0 || width <= 0) {
    return invalid_argument(cat("the model's input is ", height, " x ", width, " pixels"));
  }
  auto interpolation = Interpolation::kBilinear;
  if (!how.interpolation.empty()) {
    const auto known = interpolation_from_name(how.interpolation);
    if (!known.has_value()) {
      return invalid_argument(cat("unknown interpolation '", printable(how.interpolation),
                                  "', expected nearest, box, bilinear, bicubic or lanczos"));
    }
    interpolation = *known;
  }
  const std::array<double, 3> mean = how.mean.value_or(std::array<double, 3>{0, 0, 0});
  const std::array<double, 3> std = how.std.value_or(std::array<double, 3>{1, 1, 1});
  for (const double s : std) {
    if (!(std::abs(s) > 0)) return invalid_argument("preprocessing.std: expected no 0");
  }

  Canvas canvas{to_rgb(image), {}};
  canvas.placement.picture_width = image.width;
  canvas.placement.picture_height = image.height;
  if (how.letterbox) {
    const bool stated = how.resize.has_value() && !how.resize->shorter_side;
    letterbox(canvas, stated ? how.resize->width : width, stated ? how.resize->height : height,
              interpolation);
  } else if (how.resize.has_value() && how.resize->shorter_side) {
    const int64_t side = how.resize->height;
    const int64_t w = canvas.image.width;
    const int64_t h = canvas.image.height;
    const int64_t longer =
        static_cast<int64_t>(static_cast<double>(side) * static_cast<double>(std::max(w, h)) /
                             static_cast<double>(std::min(w, h)));
    // Beyond this, a strip of a picture would become a canvas without bound.
    constexpr int64_t kMaxSide = 1 << 16;
    if (side <= 0 || longer > kMaxSide) {
      return invalid_argument(cat("a picture of ", w, " x ", h,
                                  " pixels resized to a shorter side of ", side, " would be ",
                                  longer, " long, expected at most ", kMaxSide));
    }
    resize_to(canvas, w <= h ? side : longer, w <= h ? longer : side, interpolation);
  } else if (how.resize.has_value()) {
    resize_to(canvas, how.resize->width, how.resize->height, interpolation);
  }
  if (how.center_crop.has_value()) {
    const auto [h, w] = *how.center_crop;
    take_window(canvas, middle(canvas.image.width, w), middle(canvas.image.height, h), w, h);
  }
  if (!how.letterbox && !how.resize.has_value() && !how.center_crop.has_value()) {
    resize_to(canvas, width, height, interpolation);
  }
  if (canvas.image.width != width || canvas.image.height != height) {
    return invalid_argument(cat("preprocessing ends at ", canvas.image.height, " x ",
                                canvas.image.width, " pixels, the model takes ", height, " x ",
                                width));
  }

  PreparedImage prepared;
  prepared.placement = canvas.placement;
  prepared.placement.input_width = width;
  prepared.placement.input_height = height;
  find_visible(prepared.placement);
  const int64_t plane = height * width;
  prepared.values.resize(static_cast<size_t>(3 * plane));
  for (int c = 0; c < 3; ++c) {
    // In floats and in this order, as the reference computes it.
    const auto m = static_cast<float>(mean[static_cast<size_t>(c)]);
    const auto s = static_cast<float>(std[static_cast<size_t>(c)]);
    float table[256];
    for (int v = 0; v < 256; ++v) table[v] = (static_cast<float>(v) / 255.0f - m) / s;
    const uint8_t* from = canvas.image.pixels.data() + c;
    float* to = prepared.values.data() + c * plane;
    for (int64_t i = 0; i < plane; ++i) to[i] = table[from[i * 3]];
  }
  return prepared;
}

}  // namespace downhaul

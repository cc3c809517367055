#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "dialects/mil/raiser.h"

namespace downhaul::coreml {
namespace {

struct Window {
  Ints stride, padding, dilation;  ///< padding: top, left, bottom, right
};

/// `kernel`: height and width.
Window window(RaiseCall& c, const Value* x, const Ints& kernel, const char* dilations) {
  Window w;
  w.stride = c.ints("strides", {1, 1});
  w.dilation = dilations != nullptr ? c.ints(dilations, {1, 1}) : Ints{1, 1};
  const std::string type = c.text("pad_type", "valid");
  w.padding = {0, 0, 0, 0};
  if (w.stride.size() != 2 || w.dilation.size() != 2 || x == nullptr || x->rank() != 4 ||
      kernel.size() != 2 || w.stride[0] < 1 || w.stride[1] < 1) {
    c.refuse("expected an image of two dimensions, with strides for both");
    w.stride = w.dilation = {1, 1};
    return w;
  }
  if (type == "custom") {
    const Ints pad = c.ints("pad", {0, 0, 0, 0});
    if (pad.size() != 4) {
      c.refuse("pad: expected four numbers");
      return w;
    }
    w.padding = {pad[0], pad[2], pad[1], pad[3]};
  } else if (type == "same" || type == "same_lower") {
    const Sizes sizes = c.sizes(x);
    for (size_t d = 0; d < 2; ++d) {
      const int64_t in = sizes[2 + d], out = (in + w.stride[d] - 1) / w.stride[d];
      const int64_t span = w.dilation[d] * (kernel[d] - 1) + 1;
      const int64_t total = std::max<int64_t>((out - 1) * w.stride[d] + span - in, 0);
      const int64_t before = type == "same" ? total / 2 : total - total / 2;
      w.padding[d] = before;
      w.padding[2 + d] = total - before;
    }
  } else if (type != "valid") {
    c.refuse(cat("pad_type ", printable(type, 40)));
  }
  return w;
}

Values convolution(RaiseCall& c, const OpDef& op) {
  Value* x = c.in("x");
  Value* weight = c.in("weight");
  Value* bias = c.maybe("bias");
  if (!c.ok() || weight->rank() != 4) return {c.refuse("weight: expected four dimensions")};
  const Sizes filters = c.sizes(weight);
  const Window w = window(c, x, {filters[2], filters[3]}, "dilations");
  return {c.b.op(op, {x, weight, bias},
                 {{"stride", w.stride},
                  {"padding", w.padding},
                  {"dilation", w.dilation},
                  {"groups", c.integer("groups", 1)}})};
}
Values conv(RaiseCall& c) { return convolution(c, ops::kConv2d); }
Values conv_transpose(RaiseCall& c) {
  if (c.has("output_shape")) return {c.refuse("output_shape")};
  return convolution(c, ops::kConvTranspose2d);
}

Values max_pool(RaiseCall& c) {
  Value* x = c.in("x");
  const Ints kernel = c.ints("kernel_sizes");
  const Window w = window(c, x, kernel, nullptr);
  return {c.b.op(ops::kMaxPool2d, {x},
                 {{"kernel", kernel},
                  {"stride", w.stride},
                  {"padding", w.padding},
                  {"ceil_mode", c.flag("ceil_mode", false)}})};
}
Values avg_pool(RaiseCall& c) {
  Value* x = c.in("x");
  const Ints kernel = c.ints("kernel_sizes");
  const Window w = window(c, x, kernel, nullptr);
  return {c.b.op(ops::kAvgPool2d, {x},
                 {{"kernel", kernel},
                  {"stride", w.stride},
                  {"padding", w.padding},
                  {"ceil_mode", c.flag("ceil_mode", false)},
                  {"count_include_pad", !c.flag("exclude_padding_from_average", false)}})};
}

Ints scaled(RaiseCall& c, const Value* x) {
  if (x == nullptr || x->rank() != 4) {
    c.refuse("expected an image of two dimensions");
    return {1, 1};
  }
  const Sizes in = c.sizes(x);
  Ints out;
  const std::pair<const char*, size_t> kSides[] = {{"scale_factor_height", 2},
                                                   {"scale_factor_width", 3}};
  for (const auto& [name, d] : kSides) {
    const double factor = c.number(name, 1);
    const double size = std::floor(static_cast<float>(in[d]) * static_cast<float>(factor));
    if (!(size >= 1 && size < 1e6)) {
      c.refuse(cat(name, " ", factor));
      return {1, 1};
    }
    out.push_back(static_cast<int64_t>(size));
  }
  return out;
}
Values upsample_bilinear(RaiseCall& c) {
  Value* x = c.in("x");
  const Ints size = scaled(c, x);
  const bool corners = c.flag("align_corners", true);
  if (c.flag("half_pixel_centers", !corners) == corners) {
    return {c.refuse("neither aligned corners nor half-pixel centres")};
  }
  return {
      c.b.op(ops::kUpsampleBilinear2d, {x}, {{"output_size", size}, {"align_corners", corners}})};
}
Values upsample_nearest(RaiseCall& c) {
  Value* x = c.in("x");
  const Ints size = scaled(c, x);
  return {c.b.op(ops::kUpsampleNearest2d, {x}, {{"output_size", size}})};
}
Values pixel_shuffle(RaiseCall& c) {
  Value* x = c.in("x");
  return {c.b.op(ops::kPixelShuffle, {x}, {{"factor", c.integer("upscale_factor", 1)}})};
}

Values batch_norm(RaiseCall& c) {
  Value* x = c.in("x");
  return {c.b.op(ops::kBatchNorm,
                 {x, c.maybe("gamma"), c.maybe("beta"), c.in("mean"), c.in("variance")},
                 {{"eps", c.number("epsilon", 1e-5)}})};
}

constexpr RaiseRow kRows[] = {
    {"avg_pool", avg_pool},
    {"batch_norm", batch_norm},
    {"conv", conv},
    {"conv_transpose", conv_transpose},
    {"max_pool", max_pool},
    {"pixel_shuffle", pixel_shuffle},
    {"upsample_bilinear", upsample_bilinear},
    {"upsample_nearest_neighbor", upsample_nearest},
};

}  // namespace

std::span<const RaiseRow> raise_image_rows() { return kRows; }

}  // namespace downhaul::coreml

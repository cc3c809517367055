// Convolutions, pooling, resampling. Images are [N, C, H, W].
#include <cmath>

#include "base/strings.h"
#include "dialects/mil/table.h"

namespace downhaul::coreml {
namespace {

std::string refuse_layout(const Node& node, const Target& /*target*/) {
  return node.s("layout") == "nchw" ? "" : "Core ML's images are channels-first";
}

/// [top, left, bottom, right] → [top, bottom, left, right].
Ints padding_of(const Node& node) {
  const Ints& p = node.ints("padding");
  return {p[0], p[2], p[1], p[3]};
}

bool is_all(const Ints& values, int64_t wanted) {
  for (const int64_t v : values) {
    if (v != wanted) return false;
  }
  return true;
}

std::vector<In> convolution_inputs(const Node& node, ProgramBuilder& b) {
  std::vector<In> in = {{"x", b.value(node.operand(0))},
                        {"weight", b.value(node.operand(1))},
                        {"strides", b.ints("strides", node.ints("stride"))},
                        {"dilations", b.ints("dilations", node.ints("dilation"))},
                        {"groups", b.integer("groups", node.i("groups"))}};
  if (node.operand(2) != nullptr) in.emplace_back("bias", b.value(node.operand(2)));
  const Ints padding = padding_of(node);
  in.emplace_back("pad_type", b.text("pad_type", is_all(padding, 0) ? "valid" : "custom"));
  in.emplace_back("pad", b.ints("pad", padding));
  return in;
}

std::string refuse_convolution(const Node& node, const Target& target) {
  std::string why = refuse_layout(node, target);
  const bool constant = node.operand(1)->is_constant() &&
                        (node.operand(2) == nullptr || node.operand(2)->is_constant());
  // Later versions allow computed weights; one spelling for all is enough until a model needs it.
  if (why.empty() && !constant) why = "its weights are computed";
  return why;
}

void emit_conv2d(const Node& node, ProgramBuilder& b) {
  b.result(node, "conv", convolution_inputs(node, b));
}

std::string refuse_transposed(const Node& node, const Target& target) {
  std::string why = refuse_convolution(node, target);
  if (why.empty() && !is_all(node.ints("output_padding"), 0)) why = "it pads its output";
  return why;
}
void emit_conv_transpose2d(const Node& node, ProgramBuilder& b) {
  b.result(node, "conv_transpose", convolution_inputs(node, b));
}

std::vector<In> pool_inputs(const Node& node, ProgramBuilder& b) {
  return {{"x", b.value(node.operand(0))},
          {"kernel_sizes", b.ints("kernel_sizes", node.ints("kernel"))},
          {"strides", b.ints("strides", node.ints("stride"))},
          {"pad_type", b.text("pad_type", "custom")},
          {"pad", b.ints("pad", padding_of(node))},
          {"ceil_mode", b.flag("ceil_mode", node.b("ceil_mode"))}};
}
std::string refuse_max_pool(const Node& node, const Target& target) {
  std::string why = refuse_layout(node, target);
  if (why.empty() && !is_all(node.ints("dilation"), 1)) why = "Core ML's pooling has no dilation";
  return why;
}
void emit_max_pool(const Node& node, ProgramBuilder& b) {
  b.result(node, "max_pool", pool_inputs(node, b));
}
std::string refuse_avg_pool(const Node& node, const Target& target) {
  std::string why = refuse_layout(node, target);
  if (why.empty() && node.has_attr("divisor_override"))
    why = "its divisor is not the window's size";
  return why;
}
void emit_avg_pool(const Node& node, ProgramBuilder& b) {
  std::vector<In> in = pool_inputs(node, b);
  in.emplace_back("exclude_padding_from_average",
                  b.flag("exclude_padding_from_average", !node.b("count_include_pad")));
  b.result(node, "avg_pool", in);
}

std::string refuse_adaptive(const Node& node, const Target& target) {
  std::string why = refuse_layout(node, target);
  if (why.empty() && !is_all(node.ints("output_size"), 1)) {
    why = "Core ML averages whole pictures or windows of one size";
  }
  return why;
}
void emit_adaptive(const Node& node, ProgramBuilder& b) {
  b.result(node, "reduce_mean",
           {{"x", b.value(node.operand(0))},
            {"axes", b.ints("axes", {2, 3})},
            {"keep_dims", b.flag("keep_dims", true)}});
}

/// A factor that takes `in` pixels to `out`: the product is rounded down.
double scale_factor(int64_t in, int64_t out) {
  const double exact = static_cast<double>(out) / static_cast<double>(in);
  auto factor = static_cast<float>(exact);
  while (std::floor(static_cast<float>(in) * factor) < static_cast<float>(out)) {
    factor = std::nextafter(factor, 2 * factor);
  }
  return factor;
}

std::vector<In> scales(const Node& node, ProgramBuilder& b) {
  const Sizes in = sizes_of(node.operand(0)), out = sizes_of(node.result());
  return {{"x", b.value(node.operand(0))},
          {"scale_factor_height", b.number_f32("scale_factor_height", scale_factor(in[2], out[2]))},
          {"scale_factor_width", b.number_f32("scale_factor_width", scale_factor(in[3], out[3]))}};
}
void emit_bilinear(const Node& node, ProgramBuilder& b) {
  std::vector<In> in = scales(node, b);
  const bool corners = node.b("align_corners");
  in.emplace_back("align_corners", b.flag("align_corners", corners));
  if (b.options().target.ios >= 16) {
    in.emplace_back("half_pixel_centers", b.flag("half_pixel_centers", !corners));
  }
  b.result(node, "upsample_bilinear", in);
}
std::string refuse_resize(const Node& node, const Target& target) {
  std::string why = refuse_layout(node, target);
  const Sizes in = sizes_of(node.operand(0)), out = sizes_of(node.result());
  if (why.empty() && (out[2] < in[2] || out[3] < in[3])) why = "it shrinks the picture";
  return why;
}
std::string refuse_nearest(const Node& node, const Target& target) {
  std::string why = refuse_resize(node, target);
  const Sizes in = sizes_of(node.operand(0)), out = sizes_of(node.result());
  if (why.empty() && (out[2] % in[2] != 0 || out[3] % in[3] != 0)) {
    why = "the nearest pixel by a factor that is no integer differs there";
  }
  return why;
}
void emit_nearest(const Node& node, ProgramBuilder& b) {
  b.result(node, "upsample_nearest_neighbor", scales(node, b));
}

void emit_pixel_shuffle(const Node& node, ProgramBuilder& b) {
  b.result(node, "pixel_shuffle",
           {{"x", b.value(node.operand(0))},
            {"upscale_factor", b.integer("upscale_factor", node.i("factor"))}});
}
std::string refuse_pixel_shuffle(const Node& node, const Target& /*target*/) {
  return node.operand(0)->rank() == 4 ? "" : "Core ML's takes one batch dimension";
}

constexpr EmitRow kRows[] = {
    {&ops::kConv2d, refuse_convolution, emit_conv2d},
    {&ops::kConvTranspose2d, refuse_transposed, emit_conv_transpose2d},
    {&ops::kMaxPool2d, refuse_max_pool, emit_max_pool},
    {&ops::kAvgPool2d, refuse_avg_pool, emit_avg_pool},
    {&ops::kAdaptiveAvgPool2d, refuse_adaptive, emit_adaptive},
    {&ops::kUpsampleBilinear2d, refuse_resize, emit_bilinear},
    {&ops::kUpsampleNearest2d, refuse_nearest, emit_nearest},
    {&ops::kPixelShuffle, refuse_pixel_shuffle, emit_pixel_shuffle},
};

}  // namespace

std::span<const EmitRow> image_rows() { return kRows; }

}  // namespace downhaul::coreml

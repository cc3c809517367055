// Pooling and resizing of NHWC images.
#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "dialects/xnn/spelling.h"
#include "ops/ops.h"

namespace downhaul::xnn {
namespace {

constexpr uint32_t kAlignCorners = 8;  // XNN_FLAG_ALIGN_CORNERS
constexpr uint32_t kKeepDims = 64;     // XNN_FLAG_KEEP_DIMS

/// Where the height is; the reason that lies deeper than the layout is the one to print.
int64_t height_axis(const Node& node) { return node.s("layout") == "nhwc" ? 1 : 2; }

std::string refuse_layout(const Node& node) {
  if (node.s("layout") != "nhwc") return "images must be NHWC inside a delegate";
  return "";
}

/// The windows of a pooling. With ceil_mode the last window may reach over the padded edge; the
/// payload has no such mode, so the padding grows until the window fits.
std::string pool_geometry(const Node& node, XnnPool& pool) {
  const Ints& kernel = node.ints("kernel");
  const Ints& stride = node.ints("stride");
  Ints padding = node.ints("padding");
  if (kernel[0] * kernel[1] == 1) return "the runtime has no pooling over a single element";
  const bool has_dilation = node.schema().find("dilation") != nullptr;
  for (int axis = 0; axis < 2; ++axis) {
    const auto at = static_cast<size_t>(axis);
    const int64_t dilation = has_dilation ? node.ints("dilation")[at] : 1;
    if (stride[at] > kernel[at]) return "the stride of a pooling must not exceed its window";
    const std::optional<int64_t> size =
        node.operand(0)->dim(height_axis(node) + axis).maybe_value();
    if (!size) return "the height and width of a pooled image must be static";
    const int64_t reach = dilation * (kernel[at] - 1) + 1;
    const int64_t windows = node.result()->dim(height_axis(node) + axis).value();
    int64_t& end = padding[at + 2];
    const int64_t missing = (windows - 1) * stride[at] + reach - (*size + padding[at] + end);
    if (missing > 0) end += missing;
    if (padding[at] < 0 || end < 0) return "negative padding";
    if (padding[at] >= reach || end >= reach) return "a window lies in the padding entirely";
  }
  const auto u32 = [](int64_t v) { return static_cast<uint32_t>(v); };
  pool.padding_top = u32(padding[0]);
  pool.padding_left = u32(padding[1]);
  pool.padding_bottom = u32(padding[2]);
  pool.padding_right = u32(padding[3]);
  pool.pooling_height = u32(kernel[0]);
  pool.pooling_width = u32(kernel[1]);
  pool.stride_height = u32(stride[0]);
  pool.stride_width = u32(stride[1]);
  if (has_dilation) {
    pool.dilation_height = u32(node.ints("dilation")[0]);
    pool.dilation_width = u32(node.ints("dilation")[1]);
  }
  return "";
}

NamedAttrs pool_attributes(const XnnPool& pool) {
  return {{"kernel", Ints{pool.pooling_height, pool.pooling_width}},
          {"stride", Ints{pool.stride_height, pool.stride_width}},
          {"padding",
           Ints{pool.padding_top, pool.padding_left, pool.padding_bottom, pool.padding_right}},
          {"layout", std::string("nhwc")}};
}

}  // namespace

std::string refuse_max_pool2d(const Node& node) {
  XnnPool pool;
  const std::string reason = pool_geometry(node, pool);
  return reason.empty() ? refuse_layout(node) : reason;
}

void emit_max_pool2d(const Node& node, PayloadBuilder& out) {
  XnnPool pool;
  DH_CHECK(pool_geometry(node, pool).empty());
  const uint32_t x = out.use(node.operand(0));
  out.add(XnnNodeKind::kMaxPooling2d, {x}, out.define(node.result()), pool);
}

Result<Value*> raise_max_pool2d(RaiseCall& call) {
  const XnnPool& pool = call.params<XnnPool>();
  DH_ASSIGN(Value * x, call.input(0));
  NamedAttrs attrs = pool_attributes(pool);
  attrs.push_back({"dilation", Ints{pool.dilation_height, pool.dilation_width}});
  return call.b.op(ops::kMaxPool2d, {x}, attrs);
}

// The runtime divides by the number of elements inside the image.
std::string refuse_avg_pool2d(const Node& node) {
  XnnPool pool;
  if (std::string reason = pool_geometry(node, pool); !reason.empty()) return reason;
  if (node.has_attr("divisor_override")) return "an average pooling with a divisor of its own";
  // What ceil_mode reaches over is never counted, what the model pads may be.
  const Ints& padding = node.ints("padding");
  const bool pads = std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p > 0; });
  if (pads && node.b("count_include_pad")) return "an average pooling that counts its padding";
  return refuse_layout(node);
}

void emit_avg_pool2d(const Node& node, PayloadBuilder& out) {
  XnnPool pool;
  DH_CHECK(pool_geometry(node, pool).empty());
  const uint32_t x = out.use(node.operand(0));
  out.add(XnnNodeKind::kAvgPooling2d, {x}, out.define(node.result()), pool);
}

Result<Value*> raise_avg_pool2d(RaiseCall& call) {
  DH_ASSIGN(Value * x, call.input(0));
  NamedAttrs attrs = pool_attributes(call.params<XnnPool>());
  attrs.push_back({"count_include_pad", false});
  return call.b.op(ops::kAvgPool2d, {x}, attrs);
}

// adaptive_avg_pool2d to one pixel: the mean over height and width.
std::string refuse_global_avg_pool2d(const Node& node) {
  const Ints& size = node.ints("output_size");
  if (size[0] != 1 || size[1] != 1) return "an adaptive pooling to more than one pixel";
  return refuse_layout(node);
}

void emit_global_avg_pool2d(const Node& node, PayloadBuilder& out) {
  const uint32_t x = out.use(node.operand(0));
  out.add(XnnNodeKind::kGlobalAvgPooling2d, {x}, out.define(node.result())).flags = kKeepDims;
}

Result<Value*> raise_global_avg_pool2d(RaiseCall& call) {
  DH_ASSIGN(Value * x, call.input(0));
  if (x->rank() != 4) return invalid_file("a global pooling needs 4 dimensions");
  Value* y = call.b.op(ops::kAdaptiveAvgPool2d, {x},
                       {{"output_size", Ints{1, 1}}, {"layout", std::string("nhwc")}});
  if ((call.node().flags & kKeepDims) != 0) return y;
  return call.b.op(ops::kReshape, {y}, {{"shape", Dims{x->dim(0), x->dim(3)}}});
}

std::string refuse_resize_bilinear2d(const Node& node) {
  const Ints& size = node.ints("output_size");
  const char* const scales[] = {"scale_h", "scale_w"};
  for (int axis = 0; axis < 2; ++axis) {
    const std::optional<int64_t> in = node.operand(0)->dim(height_axis(node) + axis).maybe_value();
    if (!in) return "the height and width of a resized image must be static";
    if (node.b("align_corners") || !node.has_attr(scales[axis])) continue;
    // The runtime steps by in / out. Another step moves the last of `out` samples; one that moves
    // it by less than a thousandth of a pixel is the same.
    const double out = static_cast<double>(size[static_cast<size_t>(axis)]);
    const double difference = 1 / node.f(scales[axis]) - static_cast<double>(*in) / out;
    if (std::abs(difference) * out > 1e-3) {
      return cat("a resize by ", node.f(scales[axis]), " that is not its sizes' ratio");
    }
  }
  return refuse_layout(node);
}

void emit_resize_bilinear2d(const Node& node, PayloadBuilder& out) {
  const Ints& size = node.ints("output_size");
  const uint32_t x = out.use(node.operand(0));
  XnnNode& xnn = out.add(XnnNodeKind::kStaticResizeBilinear2D, {x}, out.define(node.result()),
                         XnnResize{static_cast<uint32_t>(size[0]), static_cast<uint32_t>(size[1])});
  xnn.flags = node.b("align_corners") ? kAlignCorners : 0;
}

Result<Value*> raise_resize_bilinear2d(RaiseCall& call) {
  constexpr uint32_t kLegacy = 4;  // XNN_FLAG_TENSORFLOW_LEGACY_MODE: a third rule
  if ((call.node().flags & kLegacy) != 0) return unsupported("a resize in legacy mode");
  const XnnResize& resize = call.params<XnnResize>();
  DH_ASSIGN(Value * x, call.input(0));
  return call.b.op(ops::kUpsampleBilinear2d, {x},
                   {{"output_size", Ints{resize.new_height, resize.new_width}},
                    {"align_corners", (call.node().flags & kAlignCorners) != 0},
                    {"layout", std::string("nhwc")}});
}

}  // namespace downhaul::xnn

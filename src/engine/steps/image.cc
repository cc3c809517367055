#include "engine/steps/image.h"

#include <memory>

#include "engine/steps/steps.h"
#include "ops/ops.h"

namespace downhaul::engine {
namespace {

bool is_nhwc(const Node& node) { return node.s("layout") == "nhwc"; }

bool takes_image(PlanBuilder& plan, const Node& node) {
  const Value* out = node.result();
  return out->dtype() == DType::kF32 && node.operand(0)->dtype() == DType::kF32 &&
         plan.elements(out) > 0 && plan.elements(node.operand(0)) > 0;
}

kernels::Window window_of(const Node& node) {
  const Ints& kernel = node.ints("kernel");
  const Ints& stride = node.ints("stride");
  const Ints& padding = node.ints("padding");
  kernels::Window w;
  w.kernel_h = kernel[0];
  w.kernel_w = kernel[1];
  w.stride_h = stride[0];
  w.stride_w = stride[1];
  w.top = padding[0];
  w.left = padding[1];
  w.bottom = padding[2];
  w.right = padding[3];
  return w;
}

kernels::Image shape_of_image(const View& nhwc) {
  kernels::Image image;
  image.batch = nhwc.sizes[0];
  image.height = nhwc.sizes[1];
  image.width = nhwc.sizes[2];
  image.channels = nhwc.sizes[3];
  image.stride = image.channels;
  return image;
}

}  // namespace

View nhwc_view(const View& view, bool is_nhwc) {
  if (is_nhwc) return view;
  View out = view;
  for (const auto& [to, from] : {std::pair<size_t, size_t>{1, 2}, {2, 3}, {3, 1}}) {
    out.sizes[to] = view.sizes[from];
    out.strides[to] = view.strides[from];
  }
  return out;
}

bool is_planes(const View& nhwc) {
  View planes = nhwc;
  for (const auto& [to, from] : {std::pair<size_t, size_t>{1, 3}, {2, 1}, {3, 2}}) {
    planes.sizes[to] = nhwc.sizes[from];
    planes.strides[to] = nhwc.strides[from];
  }
  return planes.is_dense();
}

ImageRef image_of(PlanBuilder& plan, const Value* value, bool is_nhwc) {
  const View nhwc = nhwc_view(plan.view(value), is_nhwc);
  kernels::Image image = shape_of_image(nhwc);
  const auto fits = [&](size_t d, int64_t stride) {
    return nhwc.sizes[d] == 1 || nhwc.strides[d] == stride;
  };
  int64_t pixel = image.channels;
  if (image.width > 1) {
    pixel = nhwc.strides[2];
  } else if (image.height > 1) {
    pixel = nhwc.strides[1];
  }
  if (pixel >= image.channels && fits(3, 1) && fits(2, pixel) && fits(1, pixel * image.width) &&
      fits(0, pixel * image.width * image.height)) {
    image.stride = pixel;
    return {image, nhwc.ref};
  }
  return {image, plan.dense_in_order(value, is_nhwc ? std::vector<int64_t>{0, 1, 2, 3}
                                                    : std::vector<int64_t>{0, 2, 3, 1})};
}

ImageRef image_result(PlanBuilder& plan, const Value* value, bool is_nhwc) {
  const Sizes& s = plan.sizes(value);
  kernels::Image image{s[0], s[is_nhwc ? 1 : 2], s[is_nhwc ? 2 : 3], s[is_nhwc ? 3 : 1], 0};
  image.stride = image.channels;
  if (value->num_output_uses() == 0 && image.height * image.width > 1) {
    image.stride = kernels::image_stride(image.channels);
  }
  const int64_t row = image.stride * image.width;
  const int64_t whole = row * image.height;
  std::vector<int64_t> strides = {whole, row, image.stride, 1};
  if (!is_nhwc) strides = {whole, 1, row, image.stride};
  const View view = plan.result_with_strides(value, std::move(strides), whole * image.batch);
  return {image, view.ref};
}

bool plan_max_pool2d(PlanBuilder& plan, const Node& node) {
  if (!takes_image(plan, node)) return false;
  kernels::Window window = window_of(node);
  window.dilation_h = node.ints("dilation")[0];
  window.dilation_w = node.ints("dilation")[1];
  const ImageRef in = image_of(plan, node.operand(0), is_nhwc(node));
  const ImageRef out = image_result(plan, node.result(), is_nhwc(node));
  plan.emit("max_pool2d", {&node}, [=](RunContext& run) {
    kernels::max_pool2d(in.image, out.image, window, run.at<const float>(in.ref),
                        run.at<float>(out.ref), run.pool);
  });
  return true;
}

bool plan_avg_pool2d(PlanBuilder& plan, const Node& node) {
  if (!takes_image(plan, node)) return false;
  const kernels::Window window = window_of(node);
  const bool count_pad = node.b("count_include_pad");
  const double divisor =
      node.has_attr("divisor_override") ? static_cast<double>(node.i("divisor_override")) : 0.0;
  const ImageRef in = image_of(plan, node.operand(0), is_nhwc(node));
  const ImageRef out = image_result(plan, node.result(), is_nhwc(node));
  plan.emit("avg_pool2d", {&node}, [=](RunContext& run) {
    kernels::avg_pool2d(in.image, out.image, window, count_pad, divisor,
                        run.at<const float>(in.ref), run.at<float>(out.ref), run.pool);
  });
  return true;
}

namespace {

void plan_adaptive(PlanBuilder& plan, const Node& node, const ImageRef& in, const ImageRef& out) {
  const int64_t floats = kernels::adaptive_avg_pool2d_scratch(in.image, out.image);
  const Ref scratch = plan.scratch(static_cast<uint64_t>(floats) * sizeof(float));
  plan.emit("average", {&node}, [=](RunContext& run) {
    kernels::adaptive_avg_pool2d(in.image, out.image, run.at<const float>(in.ref),
                                 run.at<float>(out.ref),
                                 scratch.buffer >= 0 ? run.at<float>(scratch) : nullptr, run.pool);
  });
}

}  // namespace

bool plan_adaptive_avg_pool2d(PlanBuilder& plan, const Node& node) {
  if (!takes_image(plan, node)) return false;
  const ImageRef in = image_of(plan, node.operand(0), is_nhwc(node));
  const ImageRef out = image_result(plan, node.result(), is_nhwc(node));
  plan_adaptive(plan, node, in, out);
  return true;
}

bool plan_upsample_bilinear2d(PlanBuilder& plan, const Node& node) {
  if (!takes_image(plan, node)) return false;
  const Value* value = node.operand(0);
  const Value* result = node.result();
  const bool nhwc = is_nhwc(node);
  const View from = nhwc_view(plan.view(value), nhwc);
  const kernels::Image small = shape_of_image(from);
  const Sizes& out_sizes = plan.sizes(result);
  const int64_t height = out_sizes[nhwc ? 1 : 2], width = out_sizes[nhwc ? 2 : 3];
  auto taps =
      std::make_shared<std::vector<kernels::ResizeTap>>(static_cast<size_t>(height + width));
  kernels::ResizeTap* rows = taps->data();
  kernels::ResizeTap* columns = taps->data() + height;
  const bool corners = node.b("align_corners");
  const auto scale = [&](const char* attr) { return node.has_attr(attr) ? node.f(attr) : 0.0; };
  kernels::bilinear_taps(small.height, height, corners, scale("scale_h"), rows);
  kernels::bilinear_taps(small.width, width, corners, scale("scale_w"), columns);

  // A result that is only read as planes is computed as planes: the transposition moves to the
  // smaller image.
  const Node* reader =
      result->has_one_use() && result->num_output_uses() == 0 ? result->uses()[0].node : nullptr;
  const bool to_planes = nhwc ? reader != nullptr && reader->is(ops::kPermute) &&
                                    reader->ints("dims") == Ints{0, 3, 1, 2}
                              : is_planes(from);
  if (to_planes) {
    const Ref in = plan.dense_in_order(
        value, nhwc ? std::vector<int64_t>{0, 3, 1, 2} : std::vector<int64_t>{0, 1, 2, 3});
    const View out = nhwc ? plan.result_in_order(result, {0, 3, 1, 2})
                          : plan.result_in_order(result, {0, 1, 2, 3});
    const int64_t floats = kernels::resize_planes_scratch(width, plan.num_threads());
    const Ref scratch = plan.scratch(static_cast<uint64_t>(floats) * sizeof(float));
    plan.emit("resize planes", {&node}, [=, out_ref = out.ref](RunContext& run) {
      (void)taps;
      kernels::resize_bilinear_planes(small.batch * small.channels, small.height, small.width,
                                      height, width, rows, columns, run.at<const float>(in),
                                      run.at<float>(out_ref), run.at<float>(scratch), run.pool);
    });
    return true;
  }
  const ImageRef in = image_of(plan, value, nhwc);
  const ImageRef out = image_result(plan, result, nhwc);
  plan.emit("resize", {&node}, [=](RunContext& run) {
    (void)taps;
    kernels::resize_bilinear(in.image, out.image, rows, columns, run.at<const float>(in.ref),
                             run.at<float>(out.ref), run.pool);
  });
  return true;
}

bool plan_upsample_nearest2d(PlanBuilder& plan, const Node& node) {
  if (!takes_image(plan, node)) return false;
  const ImageRef in = image_of(plan, node.operand(0), is_nhwc(node));
  const ImageRef out = image_result(plan, node.result(), is_nhwc(node));
  auto indices = std::make_shared<std::vector<int32_t>>(
      static_cast<size_t>(out.image.height + out.image.width));
  int32_t* rows = indices->data();
  int32_t* columns = indices->data() + out.image.height;
  const auto scale = [&](const char* attr) { return node.has_attr(attr) ? node.f(attr) : 0.0; };
  kernels::nearest_indices(in.image.height, out.image.height, scale("scale_h"), rows);
  kernels::nearest_indices(in.image.width, out.image.width, scale("scale_w"), columns);
  plan.emit("resize nearest", {&node}, [=](RunContext& run) {
    (void)indices;
    kernels::resize_nearest(in.image, out.image, rows, columns, run.at<const float>(in.ref),
                            run.at<float>(out.ref), run.pool);
  });
  return true;
}

bool plan_image_mean(PlanBuilder& plan, const Node& node) {
  // The mean of all pixels: what classifiers and squeeze-and-excite blocks begin with.
  const Value* in = node.operand(0);
  if (!takes_image(plan, node) || in->rank() != 4) return false;
  Ints dims;
  for (const int64_t d : node.ints("dims")) dims.push_back(d < 0 ? d + 4 : d);
  if (dims != Ints{1, 2}) return false;
  const ImageRef image = image_of(plan, in, true);
  kernels::Image pixel;
  pixel.batch = image.image.batch;
  pixel.channels = pixel.stride = image.image.channels;
  plan_adaptive(plan, node, image, {pixel, plan.result(node.result())});
  return true;
}

}  // namespace downhaul::engine

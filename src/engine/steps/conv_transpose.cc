#include <algorithm>

#include "base/strings.h"
#include "engine/steps/image.h"
#include "engine/steps/steps.h"
#include "kernels/conv/transposed.h"
#include "kernels/gemm/gemm.h"
#include "ops/ops.h"

// conv_transpose2d: a product of all pixels with the weights of all taps, some rows of the image at
// a time, then the taps added up where they fall.
namespace downhaul::engine {
namespace {

// Products of this many floats stay in the second cache.
constexpr int64_t kMaxProducts = int64_t{1} << 18;

kernels::TransposedConv2d describe(const Node& node, const kernels::Image& in,
                                   const kernels::Image& out, const Sizes& weight) {
  kernels::TransposedConv2d c;
  c.height_in = in.height;
  c.width_in = in.width;
  c.height_out = out.height;
  c.width_out = out.width;
  c.channels = weight[1];
  c.out_stride = out.stride;
  c.kernel_h = weight[2];
  c.kernel_w = weight[3];
  c.stride_h = node.ints("stride")[0];
  c.stride_w = node.ints("stride")[1];
  c.top = node.ints("padding")[0];
  c.left = node.ints("padding")[1];
  c.dilation_h = node.ints("dilation")[0];
  c.dilation_w = node.ints("dilation")[1];
  return c;
}

/// [I][O][taps] to [I][taps][O], then packed, group after group.
void pack_weights(const float* weight, const Sizes& sizes, int64_t groups, float* packed,
                  ThreadPool& pool) {
  const int64_t inputs = sizes[0] / groups;
  const int64_t outputs = sizes[1];
  const int64_t taps = sizes[2] * sizes[3];
  const int64_t n = taps * outputs;
  std::vector<float> ordered(static_cast<size_t>(inputs * n));
  for (int64_t g = 0; g < groups; ++g) {
    const float* from = weight + g * inputs * n;
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t t = 0; t < taps; ++t) {
          ordered[static_cast<size_t>((i * taps + t) * outputs + o)] =
              from[(i * outputs + o) * taps + t];
        }
      }
    }
    kernels::pack_b(
        {.data = ordered.data(), .n_stride = 1, .k_stride = n}, n, inputs, nullptr,
        packed + g * static_cast<int64_t>(kernels::packed_b_bytes(n, inputs) / sizeof(float)),
        pool);
  }
}

}  // namespace

bool plan_conv_transpose2d(PlanBuilder& plan, const Node& node) {
  const Value* weight = node.operand("weight");
  const Value* bias = node.operand("bias");
  if (node.result()->dtype() != DType::kF32 || !weight->is_constant() ||
      plan.elements(node.result()) == 0 || plan.elements(node.operand("input")) == 0) {
    return false;
  }
  const bool nhwc = node.s("layout") == "nhwc";
  const Sizes sizes = plan.sizes(weight);
  const int64_t groups = node.i("groups");
  const int64_t inputs = sizes[0] / groups;
  const int64_t n = sizes[1] * sizes[2] * sizes[3];
  const ImageRef in = image_of(plan, node.operand("input"), nhwc);
  const Ref bias_ref = bias == nullptr ? Ref{} : plan.dense(bias);
  const ImageRef out = image_result(plan, node.result(), nhwc);
  const kernels::TransposedConv2d conv = describe(node, in.image, out.image, sizes);
  const size_t group_bytes = kernels::packed_b_bytes(n, inputs);
  const auto* w = reinterpret_cast<const float*>(plan.constant_data(weight->constant()));
  const float* packed =
      plan.weights().packed(weight->constant(), Tensor(), cat("conv transposed ", groups),
                            group_bytes * static_cast<size_t>(groups), plan.pool(),
                            [&](float* to) { pack_weights(w, sizes, groups, to, plan.pool()); });
  const int64_t rows = std::clamp<int64_t>(kMaxProducts / (in.image.width * n), 1, in.image.height);
  const Ref scratch =
      plan.scratch(static_cast<uint64_t>(rows * in.image.width * n) * sizeof(float));
  plan.emit(
      "conv transposed", {&node},
      [=](RunContext& run) {
        const kernels::Image& from = in.image;
        auto* result = run.at<float>(out.ref);
        const float* b = bias_ref.buffer < 0 ? nullptr : run.at<const float>(bias_ref);
        const int64_t channels = out.image.channels;
        run.pool.run(out.image.batch * conv.height_out * conv.width_out,
                     std::max<int64_t>(1, (1 << 14) / channels),
                     [&](int64_t begin, int64_t end, int) {
                       for (int64_t p = begin; p < end; ++p) {
                         float* pixel = result + p * out.image.stride;
                         if (b == nullptr) {
                           std::fill_n(pixel, channels, 0.0f);
                         } else {
                           std::copy_n(b, channels, pixel);
                         }
                       }
                     });
        auto* products = run.at<float>(scratch);
        for (int64_t image = 0; image < from.batch; ++image) {
          float* to = result + image * conv.height_out * conv.width_out * out.image.stride;
          for (int64_t g = 0; g < groups; ++g) {
            const float* group = packed + g * static_cast<int64_t>(group_bytes / sizeof(float));
            for (int64_t row = 0; row < from.height; row += rows) {
              const int64_t count = std::min(rows, from.height - row);
              kernels::gemm(run.at<const float>(in.ref) +
                                (image * from.height + row) * from.width * from.stride + g * inputs,
                            from.stride, count * from.width, group, n, inputs, products, n, {},
                            run.pool);
              kernels::add_taps(conv, row, count, products, to + g * conv.channels, run.pool);
            }
          }
        }
      },
      static_cast<int64_t>(weight->constant().num_bytes()));
  return true;
}

}  // namespace downhaul::engine

// Convolution as its formula reads. Packed weights: as they come, then the bias.
#include <algorithm>
#include <cmath>

#include "kernels/conv/finish.h"
#include "kernels/conv/kernel.h"

namespace downhaul::kernels {
namespace {

int64_t group_in(const Conv2d& conv) { return conv.in.channels / conv.groups; }
int64_t weights_per_output(const Conv2d& conv) {
  return group_in(conv) * conv.window.kernel_h * conv.window.kernel_w;
}

ConvSizes sizes(const Conv2d& conv, int num_threads) {
  const int64_t weights = conv.channels_out * (weights_per_output(conv) + 1);
  return {.packed = static_cast<size_t>(weights) * sizeof(float),
          .scratch = static_cast<size_t>(conv.channels_out * num_threads) * sizeof(float)};
}

void pack(const Conv2d& conv, const float* weight, const float* bias, float* packed, ThreadPool&) {
  const int64_t count = conv.channels_out * weights_per_output(conv);
  std::copy_n(weight, count, packed);
  std::fill_n(packed + count, conv.channels_out, 0.0f);
  if (bias != nullptr) std::copy_n(bias, conv.channels_out, packed + count);
}

float sum_at(const Conv2d& conv, const float* image, int64_t y, int64_t x, const float* weight,
             int64_t first_channel, float sum) {
  const Window& w = conv.window;
  for (int64_t i = 0; i < w.kernel_h; ++i) {
    const int64_t row = y * w.stride_h - w.top + i * w.dilation_h;
    if (row < 0 || row >= conv.in.height) continue;
    for (int64_t j = 0; j < w.kernel_w; ++j) {
      const int64_t column = x * w.stride_w - w.left + j * w.dilation_w;
      if (column < 0 || column >= conv.in.width) continue;
      const float* pixel = image + (row * conv.in.width + column) * conv.in.stride + first_channel;
      for (int64_t c = 0; c < group_in(conv); ++c) {
        sum = std::fma(pixel[c], weight[(c * w.kernel_h + i) * w.kernel_w + j], sum);
      }
    }
  }
  return sum;
}

void run(const Conv2d& conv, const float* in, const float* packed, const int32_t*,
         const Epilogue& epilogue, float* out, void* scratch, ThreadPool& pool) {
  const int64_t height = conv.height_out();
  const int64_t width = conv.width_out();
  const int64_t group_out = conv.channels_out / conv.groups;
  const float* bias = packed + conv.channels_out * weights_per_output(conv);
  pool.run(conv.in.batch * height * width, 1, [&](int64_t begin, int64_t end, int worker) {
    float* sums = static_cast<float*>(scratch) + worker * conv.channels_out;
    for (int64_t i = begin; i < end; ++i) {
      const float* image =
          in + i / (height * width) * conv.in.height * conv.in.width * conv.in.stride;
      for (int64_t o = 0; o < conv.channels_out; ++o) {
        sums[o] =
            sum_at(conv, image, i / width % height, i % width,
                   packed + o * weights_per_output(conv), o / group_out * group_in(conv), bias[o]);
      }
      const float* operand = epilogue.combine == Combine::kNone
                                 ? nullptr
                                 : epilogue.operand + i * epilogue.operand_stride;
      finish_pixels(sums, 0, 1, conv.channels_out, epilogue, operand, out + i * conv.out_stride, 0);
    }
  });
}

}  // namespace

const ConvKernel kConvDirect = {
    .name = "direct",
    .can_run = [](const Conv2d& conv) { return !conv.planes_in; },
    .sizes = sizes,
    .pack = pack,
    .build_table = nullptr,
    .run = run,
};

}  // namespace downhaul::kernels

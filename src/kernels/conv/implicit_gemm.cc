// Convolutions that are matrix products: A has a row per output pixel and is never written down,
// but for the padded copy of an image of few channels.
#include <algorithm>
#include <limits>

#include "kernels/conv/interleave.h"
#include "kernels/conv/kernel.h"
#include "kernels/gemm/gemm.h"

namespace downhaul::kernels {
namespace {

bool is_pointwise(const Conv2d& conv) {
  const Window& w = conv.window;
  return conv.groups == 1 && w.kernel_h == 1 && w.kernel_w == 1 && w.stride_h == 1 &&
         w.stride_w == 1 && w.top == 0 && w.left == 0 && w.bottom == 0 && w.right == 0;
}

int64_t taps(const Conv2d& conv) { return conv.window.kernel_h * conv.window.kernel_w; }
int64_t group_in(const Conv2d& conv) { return conv.in.channels / conv.groups; }
int64_t group_out(const Conv2d& conv) { return conv.channels_out / conv.groups; }
int64_t pixels_out(const Conv2d& conv) { return conv.height_out() * conv.width_out(); }

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }
size_t float_bytes(int64_t count) { return padded(static_cast<size_t>(count) * sizeof(float)); }

/// The same for all kernels here: per group a packed matrix, k = tap, then channel of the group.
void pack(const Conv2d& conv, const float* weight, const float* bias, float* packed,
          ThreadPool& pool) {
  const int64_t k = taps(conv) * group_in(conv);
  const size_t group_floats = packed_b_bytes(group_out(conv), k) / sizeof(float);
  for (int64_t g = 0; g < conv.groups; ++g) {
    const BSource b{.data = weight + g * group_out(conv) * k,
                    .n_stride = k,
                    .k_stride = taps(conv),
                    .run = group_in(conv),
                    .tap_stride = 1};
    pack_b(b, group_out(conv), k, bias == nullptr ? nullptr : bias + g * group_out(conv),
           packed + static_cast<size_t>(g) * group_floats, pool);
  }
}

size_t packed_bytes(const Conv2d& conv) {
  return static_cast<size_t>(conv.groups) *
         packed_b_bytes(group_out(conv), taps(conv) * group_in(conv));
}

void run_pointwise(const Conv2d& conv, const float* in, const float* packed, const int32_t*,
                   const Epilogue& epilogue, float* out, void*, ThreadPool& pool) {
  gemm(in, conv.in.stride, conv.in.batch * pixels_out(conv), packed, conv.channels_out,
       conv.in.channels, out, conv.out_stride, epilogue, pool);
}

// ---- by a table of offsets

void build_offsets(const Conv2d& conv, int32_t* table) {
  const Window& w = conv.window;
  for (int64_t y = 0; y < conv.height_out(); ++y) {
    for (int64_t x = 0; x < conv.width_out(); ++x) {
      for (int64_t i = 0; i < w.kernel_h; ++i) {
        const int64_t row = y * w.stride_h - w.top + i * w.dilation_h;
        for (int64_t j = 0; j < w.kernel_w; ++j) {
          const int64_t column = x * w.stride_w - w.left + j * w.dilation_w;
          const bool inside =
              row >= 0 && row < conv.in.height && column >= 0 && column < conv.in.width;
          *table++ = inside ? static_cast<int32_t>((row * conv.in.width + column) * conv.in.stride)
                            : kZeroRun;
        }
      }
    }
  }
}

bool fits_offsets(const Conv2d& conv) {
  return conv.in.stride <= std::numeric_limits<int32_t>::max() / (conv.in.height * conv.in.width);
}

ConvSizes indirect_sizes(const Conv2d& conv, int) {
  return {.packed = packed_bytes(conv),
          .table = padded(static_cast<size_t>(pixels_out(conv) * taps(conv)) * sizeof(int32_t)),
          .scratch = float_bytes(group_in(conv))};
}

void run_indirect(const Conv2d& conv, const float* in, const float* packed, const int32_t* table,
                  const Epilogue& epilogue, float* out, void* scratch, ThreadPool& pool) {
  auto* zeros = static_cast<float*>(scratch);
  std::fill_n(zeros, group_in(conv), 0.0f);
  const size_t group_floats =
      packed_b_bytes(group_out(conv), taps(conv) * group_in(conv)) / sizeof(float);
  for (int64_t g = 0; g < conv.groups; ++g) {
    const IndirectA a{.base = in + g * group_in(conv),
                      .offsets = table,
                      .zeros = zeros,
                      .rows = pixels_out(conv),
                      .image_stride = conv.in.height * conv.in.width * conv.in.stride,
                      .taps = taps(conv),
                      .run = group_in(conv)};
    Epilogue of_group = epilogue;
    if (of_group.operand != nullptr) of_group.operand += g * group_out(conv);
    gemm_indirect(a, conv.in.batch * pixels_out(conv),
                  packed + static_cast<size_t>(g) * group_floats, group_out(conv),
                  out + g * group_out(conv), conv.out_stride, of_group, pool);
  }
}

// ---- few channels: a row of taps is one run of floats when pixels are dense and padding is there

constexpr int64_t kFewChannels = 4;
/// Elements of the copy below which another thread is not worth waking.
constexpr int64_t kCopyGrain = 8192;

bool has_few_channels(const Conv2d& conv) {
  return conv.groups == 1 && conv.in.channels <= kFewChannels && conv.window.dilation_w == 1;
}

/// The padded copy: rows and columns from the first to the last tap of any result.
struct Padded {
  int64_t height, width;
  explicit Padded(const Conv2d& conv) {
    const Window& w = conv.window;
    height = (conv.height_out() - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1;
    width = (conv.width_out() - 1) * w.stride_w + w.kernel_w;
  }
  int64_t row(const Conv2d& conv) const { return width * conv.in.channels; }
};

bool can_few_channels(const Conv2d& conv) {
  const Padded copy(conv);
  return has_few_channels(conv) &&
         copy.row(conv) <= std::numeric_limits<int32_t>::max() / copy.height;
}

ConvSizes few_channels_sizes(const Conv2d& conv, int) {
  const Padded copy(conv);
  return {.packed = packed_bytes(conv),
          .table = padded(static_cast<size_t>(pixels_out(conv) * conv.window.kernel_h) *
                          sizeof(int32_t)),
          .scratch = float_bytes(conv.in.batch * copy.height * copy.row(conv))};
}

void build_row_offsets(const Conv2d& conv, int32_t* table) {
  const Window& w = conv.window;
  const Padded copy(conv);
  for (int64_t y = 0; y < conv.height_out(); ++y) {
    for (int64_t x = 0; x < conv.width_out(); ++x) {
      for (int64_t i = 0; i < w.kernel_h; ++i) {
        const int64_t row = y * w.stride_h + i * w.dilation_h;
        *table++ = static_cast<int32_t>((row * copy.width + x * w.stride_w) * conv.in.channels);
      }
    }
  }
}

/// Pixels [0, count) of one row, from NHWC or from planes that are `plane` apart.
void copy_pixels(const Conv2d& conv, const float* from, int64_t plane, int64_t count, float* to) {
  const int64_t channels = conv.in.channels;
  if (conv.planes_in && channels == 3) {
    interleave_3(from, from + plane, from + 2 * plane, count, to);
    return;
  }
  if (!conv.planes_in && conv.in.stride == channels) {
    std::copy_n(from, count * channels, to);
    return;
  }
  const int64_t x_stride = conv.planes_in ? 1 : conv.in.stride;
  const int64_t c_stride = conv.planes_in ? plane : 1;
  for (int64_t x = 0; x < count; ++x) {
    for (int64_t c = 0; c < channels; ++c) *to++ = from[x * x_stride + c * c_stride];
  }
}

void run_few_channels(const Conv2d& conv, const float* in, const float* packed,
                      const int32_t* table, const Epilogue& epilogue, float* out, void* scratch,
                      ThreadPool& pool) {
  const Padded copy(conv);
  const int64_t row_floats = copy.row(conv);
  const int64_t channels = conv.in.channels;
  const int64_t plane = conv.in.height * conv.in.width;
  auto* image = static_cast<float*>(scratch);
  pool.run(conv.in.batch * copy.height, std::max<int64_t>(1, kCopyGrain / row_floats),
           [&](int64_t begin, int64_t end, int) {
             for (int64_t i = begin; i < end; ++i) {
               float* to = image + i * row_floats;
               const int64_t n = i / copy.height;
               const int64_t y = i % copy.height - conv.window.top;
               if (y < 0 || y >= conv.in.height) {
                 std::fill_n(to, row_floats, 0.0f);
                 continue;
               }
               const int64_t left = std::min(conv.window.left, copy.width);
               const int64_t count = std::min(conv.in.width, copy.width - left);
               const float* from = conv.planes_in
                                       ? in + n * plane * channels + y * conv.in.width
                                       : in + (n * plane + y * conv.in.width) * conv.in.stride;
               std::fill_n(to, left * channels, 0.0f);
               copy_pixels(conv, from, plane, count, to + left * channels);
               std::fill(to + (left + count) * channels, to + row_floats, 0.0f);
             }
           });
  const IndirectA a{.base = image,
                    .offsets = table,
                    .zeros = nullptr,
                    .rows = pixels_out(conv),
                    .image_stride = copy.height * row_floats,
                    .taps = conv.window.kernel_h,
                    .run = conv.window.kernel_w * channels};
  gemm_indirect(a, conv.in.batch * pixels_out(conv), packed, conv.channels_out, out,
                conv.out_stride, epilogue, pool);
}

}  // namespace

bool can_read_planes(const Conv2d& conv) { return can_few_channels(conv); }

const ConvKernel kConvPointwise = {
    .name = "pointwise",
    .can_run = [](const Conv2d& conv) { return is_pointwise(conv) && !conv.planes_in; },
    .sizes = [](const Conv2d& conv, int) { return ConvSizes{.packed = packed_bytes(conv)}; },
    .pack = pack,
    .build_table = nullptr,
    .run = run_pointwise,
};

const ConvKernel kConvFewChannels = {
    .name = "few_channels",
    .can_run = can_few_channels,
    .sizes = few_channels_sizes,
    .pack = pack,
    .build_table = build_row_offsets,
    .run = run_few_channels,
};

const ConvKernel kConvIndirect = {
    .name = "indirect",
    .can_run = [](const Conv2d& conv) { return fits_offsets(conv) && !conv.planes_in; },
    .sizes = indirect_sizes,
    .pack = pack,
    .build_table = build_offsets,
    .run = run_indirect,
};

}  // namespace downhaul::kernels

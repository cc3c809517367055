// Depthwise convolution: one input channel per output channel, or per `multiplier` of them.
// Packed weights: [channels_out / 32][bias 32][tap][32], padded with zeros.
#include <algorithm>
#include <limits>

#include "kernels/conv/finish.h"
#include "kernels/conv/kernel.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of highway.h.
#include "hwy/highway.h"
#include "kernels/activation-inl.h"

#ifndef DOWNHAUL_KERNELS_CONV_DEPTHWISE_ONCE_
#define DOWNHAUL_KERNELS_CONV_DEPTHWISE_ONCE_
namespace downhaul::kernels {
namespace {

/// Some results of one row.
struct DepthwiseRow {
  /// [tap_rows]: where the pixels of a row of taps stand. Tap (i, j) of result x reads channel 0 of
  /// its pixel at pixels[i][x * stride + j], be it on the image or zeros.
  const float* const* const* pixels;
  int64_t first_tap_row, tap_rows;  ///< those on the image
  const float* packed;
  int64_t block;  ///< floats of packed weights per 32 channels
  int64_t first_channel, last_channel;
  int64_t count;  ///< results
  float* out;     ///< channel 0 of the first
  int64_t out_step;
  float lo, hi;
};

/// One result by any kernel, its taps on the image listed.
struct DepthwisePixel {
  const float* const* pixels;
  const int32_t* taps;
  int64_t count;
  const float* packed;
  int64_t block;
  int64_t channels_out, multiplier;
  float* out;
};

}  // namespace
}  // namespace downhaul::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::ScalableTag<float>;
constexpr size_t kLanes = hn::MaxLanes(Full());
using Half = hn::CappedTag<float, kLanes >= 2 ? kLanes / 2 : 1>;
using One = hn::CappedTag<float, 1>;

/// kOut neighbouring results from result x on, channels [c, c + lanes). A column of the input is
/// loaded once for all results that see it. Each result has one sum, taps in order.
template <class D, int kWidth, int kStride, int kOut>
HWY_INLINE void depthwise_step(D d, const DepthwiseRow& row, int64_t x, int64_t c) {
  const float* w = row.packed + (c >> 5) * row.block + (c & 31);
  hn::Vec<D> acc[kOut];
  const auto bias = hn::LoadU(d, w);
#pragma GCC unroll 4
  for (int o = 0; o < kOut; ++o) acc[o] = bias;
  w += 32 * (1 + row.first_tap_row * kWidth);
  for (int64_t i = 0; i < row.tap_rows; ++i, w += 32 * kWidth) {
    const float* const* pixels = row.pixels[i] + x * kStride;
    hn::Vec<D> weights[kWidth];
#pragma GCC unroll 8
    for (int j = 0; j < kWidth; ++j) weights[j] = hn::LoadU(d, w + 32 * j);
#pragma GCC unroll 16
    for (int column = 0; column < (kOut - 1) * kStride + kWidth; ++column) {
      const auto v = hn::LoadU(d, pixels[column] + c);
#pragma GCC unroll 4
      for (int o = 0; o < kOut; ++o) {
        const int j = column - o * kStride;
        if (j >= 0 && j < kWidth) acc[o] = hn::MulAdd(v, weights[j], acc[o]);
      }
    }
  }
  float* out = row.out + x * row.out_step + c;
#pragma GCC unroll 4
  for (int o = 0; o < kOut; ++o) {
    hn::StoreU(vec_clamp(d, acc[o], row.lo, row.hi), d, out + o * row.out_step);
  }
}

template <int kWidth, int kStride, int kOut>
HWY_INLINE void depthwise_channels(const DepthwiseRow& row, int64_t x) {
  int64_t c = row.first_channel;
  for (; c + static_cast<int64_t>(kLanes) <= row.last_channel; c += kLanes) {
    depthwise_step<Full, kWidth, kStride, kOut>(Full(), row, x, c);
  }
  constexpr auto kHalf = static_cast<int64_t>(hn::MaxLanes(Half()));
  for (; c + kHalf <= row.last_channel; c += kHalf) {
    depthwise_step<Half, kWidth, kStride, kOut>(Half(), row, x, c);
  }
  for (; c < row.last_channel; ++c) {
    depthwise_step<One, kWidth, kStride, kOut>(One(), row, x, c);
  }
}

template <int kWidth, int kStride>
HWY_INLINE void depthwise_row(const DepthwiseRow& args) {
  const DepthwiseRow row = args;  // that stores do not make it be read again
  int64_t x = 0;
  for (; x + 4 <= row.count; x += 4) depthwise_channels<kWidth, kStride, 4>(row, x);
  if (x + 2 <= row.count) {
    depthwise_channels<kWidth, kStride, 2>(row, x);
    x += 2;
  }
  if (x < row.count) depthwise_channels<kWidth, kStride, 1>(row, x);
}

template <class D>
HWY_INLINE void pixel_step(D d, const DepthwisePixel& p, int64_t c) {
  const float* w = p.packed + c / 32 * p.block + c % 32;
  auto acc = hn::LoadU(d, w);
  const int64_t from = c / p.multiplier;
  for (int64_t t = 0; t < p.count; ++t) {
    acc = hn::MulAdd(hn::LoadU(d, p.pixels[t] + from), hn::LoadU(d, w + 32 * (1 + p.taps[t])), acc);
  }
  hn::StoreU(acc, d, p.out + c);
}

}  // namespace

void row_3_1(const DepthwiseRow& row) { depthwise_row<3, 1>(row); }
void row_3_2(const DepthwiseRow& row) { depthwise_row<3, 2>(row); }
void row_5_1(const DepthwiseRow& row) { depthwise_row<5, 1>(row); }
void row_5_2(const DepthwiseRow& row) { depthwise_row<5, 2>(row); }
void row_7_1(const DepthwiseRow& row) { depthwise_row<7, 1>(row); }

void any_pixel(const DepthwisePixel& p) {
  int64_t c = 0;
  if (p.multiplier == 1) {
    for (; c + static_cast<int64_t>(kLanes) <= p.channels_out; c += kLanes) {
      pixel_step(Full(), p, c);
    }
  }
  for (; c < p.channels_out; ++c) pixel_step(One(), p, c);
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
namespace {

HWY_EXPORT(row_3_1);
HWY_EXPORT(row_3_2);
HWY_EXPORT(row_5_1);
HWY_EXPORT(row_5_2);
HWY_EXPORT(row_7_1);
HWY_EXPORT(any_pixel);

using RowFunction = void (*)(const DepthwiseRow&);

/// Multiply-adds below which another thread is not worth waking.
constexpr int64_t kGrain = 65536;
/// Raw results held until the epilogue runs over them: a part of L1.
constexpr int64_t kHeld = 2048;

RowFunction row_function(int64_t width, int64_t stride) {
  if (width == 3) {
    return stride == 1 ? HWY_DYNAMIC_DISPATCH(row_3_1) : HWY_DYNAMIC_DISPATCH(row_3_2);
  }
  if (width == 5) {
    return stride == 1 ? HWY_DYNAMIC_DISPATCH(row_5_1) : HWY_DYNAMIC_DISPATCH(row_5_2);
  }
  return HWY_DYNAMIC_DISPATCH(row_7_1);
}

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// What one worker owns of the scratch, and how much of it.
struct Scratch {
  int64_t extent;       ///< input rows from the first to the last tap
  int64_t residues;     ///< columns that are `residues` apart stand side by side
  int64_t columns;      ///< of each residue
  int64_t held_pixels;  ///< results whose epilogue waits
  int64_t pointer_bytes, held_bytes;

  explicit Scratch(const Conv2d& conv)
      : extent((conv.window.kernel_h - 1) * conv.window.dilation_h + 1),
        residues(conv.window.dilation_w) {
    const Window& w = conv.window;
    const int64_t all = (conv.width_out() - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1;
    columns = (all + residues - 1) / residues;
    held_pixels = std::max<int64_t>(4, kHeld / conv.channels_out / 4 * 4);
    // Per input row its table and which row that is; per row of taps a pointer to a table.
    pointer_bytes = round_up((extent * (residues * columns + 1) + w.kernel_h) * 8, 64);
    held_bytes = round_up(held_pixels * conv.channels_out * 4, 64);
  }
  int64_t per_worker() const { return pointer_bytes + held_bytes; }
};

/// The tables of the input rows that the current result row sees; neighbours share most of them.
class PixelTables {
 public:
  PixelTables(const Conv2d& conv, const Scratch& scratch, const float* in, const float* zeros,
              std::byte* memory)
      : conv_(conv),
        scratch_(scratch),
        in_(in),
        zeros_(zeros),
        tables_(reinterpret_cast<const float**>(memory)),
        held_(reinterpret_cast<int64_t*>(tables_ + size() * scratch.extent)),
        rows_(reinterpret_cast<const float* const**>(held_ + scratch.extent)) {
    std::fill_n(held_, scratch.extent, -1);
  }

  /// Table of input row `y` of image `n`.
  const float* const* row(int64_t n, int64_t y) {
    const int64_t slot = y % scratch_.extent;
    const float** table = tables_ + slot * size();
    const int64_t id = n * conv_.in.height + y;
    if (held_[slot] != id) {
      held_[slot] = id;
      fill(in_ + id * conv_.in.width * conv_.in.stride, table);
    }
    return table;
  }
  /// Room for kernel_h tables.
  const float* const** rows() { return rows_; }

 private:
  int64_t size() const { return scratch_.residues * scratch_.columns; }

  void fill(const float* row, const float** table) const {
    for (int64_t r = 0; r < scratch_.residues; ++r, table += scratch_.columns) {
      for (int64_t i = 0; i < scratch_.columns; ++i) {
        const int64_t x = i * scratch_.residues + r - conv_.window.left;
        table[i] = x >= 0 && x < conv_.in.width ? row + x * conv_.in.stride : zeros_;
      }
    }
  }

  const Conv2d& conv_;
  const Scratch& scratch_;
  const float* in_;
  const float* zeros_;
  const float** tables_;
  int64_t* held_;
  const float* const** rows_;
};

struct Range {
  int64_t first, last;
};

/// The taps of result `i` that lie on the image.
Range taps_inside(int64_t i, int64_t stride, int64_t before, int64_t dilation, int64_t kernel,
                  int64_t size) {
  const int64_t start = i * stride - before;
  const int64_t first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
  const int64_t last = size <= start ? 0 : (size - start - 1) / dilation + 1;
  return {std::min(first, kernel), std::clamp(last, std::min(first, kernel), kernel)};
}

int64_t block_floats(const Conv2d& conv) {
  return 32 * (1 + conv.window.kernel_h * conv.window.kernel_w);
}

bool is_depthwise(const Conv2d& conv) {
  const int64_t taps = conv.window.kernel_h * conv.window.kernel_w;
  return conv.groups == conv.in.channels && conv.groups > 1 && !conv.planes_in &&
         taps <= std::numeric_limits<int32_t>::max();
}

bool has_fast_depthwise(const Conv2d& conv) {
  const Window& w = conv.window;
  const bool strides = w.stride_w == 1 || (w.stride_w == 2 && w.dilation_w == 1);
  return is_depthwise(conv) && conv.channels_out == conv.in.channels && strides &&
         (w.kernel_w == 3 || w.kernel_w == 5 || (w.kernel_w == 7 && w.stride_w == 1));
}

size_t depthwise_packed_bytes(const Conv2d& conv) {
  return static_cast<size_t>((conv.channels_out + 31) / 32 * block_floats(conv)) * sizeof(float);
}

void pack_depthwise(const Conv2d& conv, const float* weight, const float* bias, float* packed,
                    ThreadPool&) {
  const int64_t taps = conv.window.kernel_h * conv.window.kernel_w;
  for (int64_t c0 = 0; c0 < conv.channels_out; c0 += 32) {
    for (int64_t t = -1; t < taps; ++t) {
      for (int64_t c = c0; c < c0 + 32; ++c) {
        float v = 0;
        if (c < conv.channels_out && t >= 0) v = weight[c * taps + t];
        if (c < conv.channels_out && t < 0 && bias != nullptr) v = bias[c];
        *packed++ = v;
      }
    }
  }
}

size_t depthwise_scratch_bytes(const Conv2d& conv, int num_threads) {
  const Scratch scratch(conv);
  return static_cast<size_t>(round_up(conv.in.channels * 4, 64) +
                             scratch.per_worker() * num_threads);
}

void run_depthwise(const Conv2d& conv, const float* in, const float* packed, const int32_t*,
                   const Epilogue& epilogue, float* out, void* scratch_memory, ThreadPool& pool) {
  const Window& window = conv.window;
  const Scratch scratch(conv);
  const RowFunction run_row = row_function(window.kernel_w, window.stride_w);
  const int64_t channels = conv.in.channels;
  const int64_t height = conv.height_out();
  const int64_t width = conv.width_out();
  auto* zeros = static_cast<float*>(scratch_memory);
  std::fill_n(zeros, channels, 0.0f);
  std::byte* workers = static_cast<std::byte*>(scratch_memory) + round_up(channels * 4, 64);

  const bool is_clamp =
      epilogue.activation == Activation::kNone || epilogue.activation == Activation::kClamp;
  const bool is_fused = is_clamp && epilogue.combine == Combine::kNone && epilogue.scale == 1.0f;
  Epilogue plain;
  if (is_fused && epilogue.activation == Activation::kClamp) plain = epilogue;

  // Few rows of many channels are cut into groups of channels, to have work for all threads.
  const int64_t rows = conv.in.batch * height;
  const int64_t cuts = std::clamp<int64_t>(32 / rows, 1, std::max<int64_t>(1, channels / 128));
  const int64_t cut = round_up((channels + cuts - 1) / cuts, 32);
  const int64_t work = width * cut * window.kernel_h * window.kernel_w;
  const int64_t chunk = std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1));
  pool.run(rows * cuts, chunk, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = workers + worker * scratch.per_worker();
    auto* held = reinterpret_cast<float*>(memory + scratch.pointer_bytes);
    PixelTables tables(conv, scratch, in, zeros, memory);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first_channel = task / rows * cut;
      const int64_t last_channel = std::min(first_channel + cut, channels);
      const int64_t y = task % rows % height;
      const int64_t n = task % rows / height;
      if (first_channel >= last_channel) continue;
      const Range taps = taps_inside(y, window.stride_h, window.top, window.dilation_h,
                                     window.kernel_h, conv.in.height);
      for (int64_t i = taps.first; i < taps.last; ++i) {
        tables.rows()[i - taps.first] =
            tables.row(n, y * window.stride_h - window.top + i * window.dilation_h);
      }
      DepthwiseRow row{
          .pixels = tables.rows(),
          .first_tap_row = taps.first,
          .tap_rows = taps.last - taps.first,
          .packed = packed,
          .block = block_floats(conv),
          .first_channel = first_channel,
          .last_channel = last_channel,
          .count = 0,
          .out = nullptr,
          .out_step = 0,
          .lo = plain.lo,
          .hi = plain.hi,
      };
      const int64_t step = window.dilation_w;
      for (int64_t r = 0; r < std::min(step, width); ++r) {
        // Results x = r, r + step, ...: with dilation these are the ones that share columns.
        const int64_t count = (width - r + step - 1) / step;
        const int64_t result = task % rows * width + r;
        if (is_fused) {
          row.count = count;
          row.out = out + result * conv.out_stride;
          row.out_step = step * conv.out_stride;
          run_row(row);
        } else {
          for (int64_t x = 0; x < count; x += scratch.held_pixels) {
            row.count = std::min(scratch.held_pixels, count - x);
            row.out = held;
            row.out_step = channels;
            run_row(row);
            const int64_t at = result + x * step;
            Epilogue strided = epilogue;
            strided.operand_stride = step * epilogue.operand_stride;
            const float* operand =
                epilogue.combine == Combine::kNone
                    ? nullptr
                    : epilogue.operand + at * epilogue.operand_stride + first_channel;
            finish_pixels(held + first_channel, channels, row.count, last_channel - first_channel,
                          strided, operand, out + at * conv.out_stride + first_channel,
                          step * conv.out_stride);
            for (int64_t i = 0; i < row.tap_rows; ++i) {
              tables.rows()[i] += scratch.held_pixels * window.stride_w;
            }
          }
        }
        for (int64_t i = taps.first; i < taps.last; ++i) {
          tables.rows()[i - taps.first] =
              tables.row(n, y * window.stride_h - window.top + i * window.dilation_h) +
              (r + 1) * scratch.columns;
        }
      }
    }
  });
}

size_t any_depthwise_scratch_bytes(const Conv2d& conv, int num_threads) {
  const int64_t taps = conv.window.kernel_h * conv.window.kernel_w;
  return static_cast<size_t>(round_up(taps * 12 + conv.channels_out * 4, 64) * num_threads);
}

void run_any_depthwise(const Conv2d& conv, const float* in, const float* packed, const int32_t*,
                       const Epilogue& epilogue, float* out, void* scratch, ThreadPool& pool) {
  const Window& window = conv.window;
  const auto run_pixel = HWY_DYNAMIC_DISPATCH(any_pixel);
  const int64_t all_taps = window.kernel_h * window.kernel_w;
  const int64_t height = conv.height_out();
  const int64_t width = conv.width_out();
  const int64_t work = all_taps * conv.channels_out;
  pool.run(conv.in.batch * height * width, std::max<int64_t>(1, kGrain / work),
           [&](int64_t begin, int64_t end, int worker) {
             std::byte* memory = static_cast<std::byte*>(scratch) +
                                 round_up(all_taps * 12 + conv.channels_out * 4, 64) * worker;
             auto** pixels = reinterpret_cast<const float**>(memory);
             auto* taps = reinterpret_cast<int32_t*>(pixels + all_taps);
             auto* sums = reinterpret_cast<float*>(taps + all_taps);
             for (int64_t i = begin; i < end; ++i) {
               const int64_t x = i % width;
               const int64_t y = i / width % height;
               const int64_t n = i / (width * height);
               const Range rows = taps_inside(y, window.stride_h, window.top, window.dilation_h,
                                              window.kernel_h, conv.in.height);
               const Range columns = taps_inside(x, window.stride_w, window.left, window.dilation_w,
                                                 window.kernel_w, conv.in.width);
               int64_t count = 0;
               for (int64_t kh = rows.first; kh < rows.last; ++kh) {
                 const int64_t row = y * window.stride_h - window.top + kh * window.dilation_h;
                 for (int64_t kw = columns.first; kw < columns.last; ++kw) {
                   const int64_t column =
                       x * window.stride_w - window.left + kw * window.dilation_w;
                   pixels[count] =
                       in + ((n * conv.in.height + row) * conv.in.width + column) * conv.in.stride;
                   taps[count++] = static_cast<int32_t>(kh * window.kernel_w + kw);
                 }
               }
               run_pixel({.pixels = pixels,
                          .taps = taps,
                          .count = count,
                          .packed = packed,
                          .block = block_floats(conv),
                          .channels_out = conv.channels_out,
                          .multiplier = conv.channels_out / conv.groups,
                          .out = sums});
               const float* operand = epilogue.combine == Combine::kNone
                                          ? nullptr
                                          : epilogue.operand + i * epilogue.operand_stride;
               finish_pixels(sums, 0, 1, conv.channels_out, epilogue, operand,
                             out + i * conv.out_stride, 0);
             }
           });
}

}  // namespace

const ConvKernel kConvDepthwise = {
    .name = "depthwise",
    .can_run = has_fast_depthwise,
    .sizes =
        [](const Conv2d& conv, int num_threads) {
          return ConvSizes{.packed = depthwise_packed_bytes(conv),
                           .scratch = depthwise_scratch_bytes(conv, num_threads)};
        },
    .pack = pack_depthwise,
    .build_table = nullptr,
    .run = run_depthwise,
};

const ConvKernel kConvAnyDepthwise = {
    .name = "any_depthwise",
    .can_run = is_depthwise,
    .sizes =
        [](const Conv2d& conv, int num_threads) {
          return ConvSizes{.packed = depthwise_packed_bytes(conv),
                           .scratch = any_depthwise_scratch_bytes(conv, num_threads)};
        },
    .pack = pack_depthwise,
    .build_table = nullptr,
    .run = run_any_depthwise,
};

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

// Depthwise convolution: one input channel per output channel, or per `multiplier` of them.
#include <algorithm>
#include <limits>

#include "kernels/conv/depthwise_tile.h"
#include "kernels/conv/finish.h"
#include "kernels/conv/kernel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile.h"

namespace downhaul::kernels {
namespace {

/// Multiply-adds below which another thread is not worth waking.
constexpr int64_t kGrain = 65536;
/// Raw results held until the epilogue runs over them: a part of L1.
constexpr int64_t kHeld = 2048;
/// Floats of input (and of weights that make it) that a core uses again and again: half of the
/// second cache of current cores.
constexpr int64_t kResident = 128 * 1024;
/// Elements of an expanded image from which on it is better not written to memory: less than that
/// stays in the second cache anyhow.
constexpr int64_t kWorthKeeping = 128 * 1024;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Where the rows of the input come from: memory, or a 1x1 convolution that makes them when they
/// are wanted.
struct Source {
  const float* in = nullptr;
  int64_t stride = 0;  ///< of `in`, from pixel to pixel
  const Conv2d* expand = nullptr;
  const float* packed = nullptr;
  const Epilogue* epilogue = nullptr;
};

/// One row of pixels of a 1x1 convolution, channels [first_channel, last_channel); the first is a
/// multiple of the panel.
void expand_row(const Source& source, int64_t row, int64_t first_channel, int64_t last_channel,
                float* to, int64_t to_stride) {
  const TileTable& tiles = tile_table();
  const int64_t width = source.expand->in.width;
  const int64_t k = source.expand->in.channels;
  const int64_t count = (width + tiles.mr - 1) / tiles.mr;
  TileArgs args;
  args.lda = source.stride;
  args.run = k;
  args.ldb = kPanel;
  args.ldc = to_stride;
  args.epilogue = source.epilogue;
  for (int64_t column = first_channel; column < last_channel; column += kPanel) {
    args.bias = source.packed + column * (k + 1);
    args.b = args.bias + kPanel;
    args.columns = std::min(kPanel, last_channel - column);
    for (int64_t t = 0; t < count; ++t) {
      const int64_t first = width * t / count;
      args.a = source.in + (row * width + first) * source.stride;
      args.c = to + first * to_stride + column;
      tiles.rows[width * (t + 1) / count - first](args);
    }
  }
}

/// What one worker owns of the scratch, and how much of it.
struct Scratch {
  int64_t extent;       ///< input rows from the first to the last tap
  int64_t residues;     ///< columns that are `residues` apart stand side by side
  int64_t columns;      ///< of each residue
  int64_t held_pixels;  ///< results whose epilogue waits
  int64_t row_stride;   ///< of expanded pixels
  int64_t pointer_bytes, held_bytes, row_bytes;

  Scratch(const Conv2d& conv, bool expands)
      : extent((conv.window.kernel_h - 1) * conv.window.dilation_h + 1),
        residues(conv.window.dilation_w) {
    const Window& w = conv.window;
    const int64_t all = (conv.width_out() - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1;
    columns = (all + residues - 1) / residues;
    held_pixels = std::max<int64_t>(4, kHeld / conv.channels_out / 4 * 4);
    row_stride = round_up(conv.in.channels, 16);
    // Per input row its table and which row that is; per row of taps a pointer to a table.
    pointer_bytes = round_up((extent * (residues * columns + 1) + w.kernel_h) * 8, 64);
    held_bytes = round_up(held_pixels * conv.channels_out * 4, 64);
    row_bytes = expands ? conv.in.width * row_stride * 4 : 0;
  }
  int64_t per_worker() const { return pointer_bytes + held_bytes + extent * row_bytes; }
  size_t bytes(const Conv2d& conv, int num_threads) const {
    return static_cast<size_t>(zero_bytes(conv) + per_worker() * num_threads);
  }
  static int64_t zero_bytes(const Conv2d& conv) { return round_up(conv.in.channels * 4, 64); }
};

/// The tables of the input rows that a result row sees; neighbours share most of them.
class PixelTables {
 public:
  PixelTables(const Conv2d& conv, const Scratch& scratch, const Source& source, const float* zeros,
              std::byte* memory)
      : conv_(conv),
        scratch_(scratch),
        source_(source),
        zeros_(zeros),
        tables_(reinterpret_cast<const float**>(memory)),
        held_(reinterpret_cast<int64_t*>(tables_ + size() * scratch.extent)),
        rows_(reinterpret_cast<const float* const**>(held_ + scratch.extent)),
        expanded_(memory + scratch.pointer_bytes + scratch.held_bytes) {}

  /// Before the first use of `memory`.
  void clear() { std::fill_n(held_, scratch_.extent, -1); }

  /// From now on channels [first, last) are wanted.
  void set_channels(int64_t first, int64_t last) {
    first_channel_ = first;
    last_channel_ = last;
  }

  /// Table of input row `y` of image `n`.
  const float* const* row(int64_t n, int64_t y) {
    const int64_t slot = y % scratch_.extent;
    const float** table = tables_ + slot * size();
    const int64_t index = n * conv_.in.height + y;
    if (source_.expand == nullptr) {
      if (held_[slot] == index) return table;
      fill(source_.in + index * conv_.in.width * source_.stride, source_.stride, table);
      held_[slot] = index;
      return table;
    }
    // Other channels of the row are another row.
    const int64_t id = index * conv_.in.channels + first_channel_;
    if (held_[slot] != id) {
      auto* expanded = reinterpret_cast<float*>(expanded_ + slot * scratch_.row_bytes);
      expand_row(source_, index, first_channel_, last_channel_, expanded, scratch_.row_stride);
      // A slot's pixels do not move: its table holds from the first row on.
      if (held_[slot] < 0) fill(expanded, scratch_.row_stride, table);
      held_[slot] = id;
    }
    return table;
  }
  /// Room for kernel_h tables.
  const float* const** rows() { return rows_; }

 private:
  int64_t size() const { return scratch_.residues * scratch_.columns; }

  void fill(const float* row, int64_t stride, const float** table) const {
    for (int64_t r = 0; r < scratch_.residues; ++r, table += scratch_.columns) {
      for (int64_t i = 0; i < scratch_.columns; ++i) {
        const int64_t x = i * scratch_.residues + r - conv_.window.left;
        table[i] = x >= 0 && x < conv_.in.width ? row + x * stride : zeros_;
      }
    }
  }

  const Conv2d& conv_;
  const Scratch& scratch_;
  const Source& source_;
  const float* zeros_;
  const float** tables_;
  int64_t* held_;
  const float* const** rows_;
  std::byte* expanded_;
  int64_t first_channel_ = 0;
  int64_t last_channel_ = 0;
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

/// A whole depthwise convolution, row by row.
class DepthwiseRun {
 public:
  DepthwiseRun(const Conv2d& conv, const Source& source, const float* packed,
               const Epilogue& epilogue, float* out, void* scratch)
      : conv_(conv),
        window_(conv.window),
        source_(source),
        packed_(packed),
        epilogue_(epilogue),
        out_(out),
        sizes_(conv, source.expand != nullptr),
        zeros_(static_cast<float*>(scratch)),
        workers_(static_cast<std::byte*>(scratch) + Scratch::zero_bytes(conv)),
        run_row_(depthwise_row_fn(window_.kernel_w, window_.stride_w)) {
    const bool is_clamp =
        epilogue.activation == Activation::kNone || epilogue.activation == Activation::kClamp;
    is_fused_ = is_clamp && epilogue.combine == Combine::kNone && epilogue.scale == 1.0f;
    if (is_fused_ && epilogue.activation == Activation::kClamp) bounds_ = epilogue;
  }

  void run(ThreadPool& pool) {
    std::fill_n(zeros_, conv_.in.channels, 0.0f);
    for (int w = 0; w < pool.num_threads(); ++w) tables(w).clear();
    const int64_t rows = conv_.in.batch * conv_.height_out();
    const int64_t channels = conv_.in.channels;
    const int64_t cut = channels_per_task(rows);
    int64_t depth = window_.kernel_h * window_.kernel_w;
    if (source_.expand != nullptr) depth += window_.stride_h * source_.expand->in.channels;
    const int64_t work = conv_.width_out() * cut * depth;
    const int64_t chunk = std::max<int64_t>(1, kGrain / std::max<int64_t>(work, 1));
    pool.run(rows * ((channels + cut - 1) / cut), chunk,
             [&](int64_t begin, int64_t end, int worker) {
               PixelTables own = tables(worker);
               for (int64_t task = begin; task < end; ++task) {
                 const int64_t first = task / rows * cut;
                 const int64_t last = std::min(first + cut, channels);
                 own.set_channels(first, last);
                 run_row(own, task % rows, first, last, held(worker));
               }
             });
  }

 private:
  /// Few rows of many channels are cut into groups of channels, to have work for all threads; so
  /// are rows of which the second cache does not hold as many as a result sees.
  int64_t channels_per_task(int64_t rows) const {
    const int64_t channels = conv_.in.channels;
    int64_t per_channel = window_.kernel_h * conv_.in.width;
    if (source_.expand != nullptr) {
      per_channel = sizes_.extent * conv_.in.width + source_.expand->in.channels;
    }
    int64_t cuts = (per_channel * channels + kResident - 1) / kResident;
    if (source_.expand == nullptr) cuts = std::max(cuts, 32 / rows);
    cuts = std::clamp<int64_t>(cuts, 1, std::max<int64_t>(1, channels / 128));
    return round_up((channels + cuts - 1) / cuts, 32);
  }

  std::byte* memory(int worker) const { return workers_ + worker * sizes_.per_worker(); }
  PixelTables tables(int worker) const {
    return PixelTables(conv_, sizes_, source_, zeros_, memory(worker));
  }
  float* held(int worker) const {
    return reinterpret_cast<float*>(memory(worker) + sizes_.pointer_bytes);
  }

  /// Channels [first, last) of result row `index`, counted over all images.
  void run_row(PixelTables& pixels, int64_t index, int64_t first, int64_t last, float* raw) const {
    const int64_t width = conv_.width_out();
    const int64_t y = index % conv_.height_out();
    const int64_t n = index / conv_.height_out();
    const Range taps = taps_inside(y, window_.stride_h, window_.top, window_.dilation_h,
                                   window_.kernel_h, conv_.in.height);
    DepthwiseRow row{
        .pixels = pixels.rows(),
        .first_tap_row = taps.first,
        .tap_rows = taps.last - taps.first,
        .packed = packed_,
        .block = block_floats(conv_),
        .first_channel = first,
        .last_channel = last,
        .count = 0,
        .out = nullptr,
        .out_step = 0,
        .lo = bounds_.lo,
        .hi = bounds_.hi,
    };
    const int64_t step = window_.dilation_w;
    for (int64_t r = 0; r < std::min(step, width); ++r) {
      // Results x = r, r + step, ...: with dilation these are the ones that share columns.
      for (int64_t i = taps.first; i < taps.last; ++i) {
        pixels.rows()[i - taps.first] =
            pixels.row(n, y * window_.stride_h - window_.top + i * window_.dilation_h) +
            r * sizes_.columns;
      }
      const int64_t count = (width - r + step - 1) / step;
      const int64_t result = index * width + r;
      if (is_fused_) {
        row.count = count;
        row.out = out_ + result * conv_.out_stride;
        row.out_step = step * conv_.out_stride;
        run_row_(row);
        continue;
      }
      row.out = raw;
      row.out_step = conv_.channels_out;
      for (int64_t x = 0; x < count; x += sizes_.held_pixels) {
        row.count = std::min(sizes_.held_pixels, count - x);
        run_row_(row);
        finish(raw, row, result + x * step);
        for (int64_t i = 0; i < row.tap_rows; ++i) {
          pixels.rows()[i] += sizes_.held_pixels * window_.stride_w;
        }
      }
    }
  }

  /// The epilogue of `row.count` results in `raw`, the first of them result `at`.
  void finish(const float* raw, const DepthwiseRow& row, int64_t at) const {
    const int64_t step = window_.dilation_w;
    Epilogue strided = epilogue_;
    strided.operand_stride = step * epilogue_.operand_stride;
    const float* operand =
        epilogue_.combine == Combine::kNone
            ? nullptr
            : epilogue_.operand + at * epilogue_.operand_stride + row.first_channel;
    finish_pixels(raw + row.first_channel, row.out_step, row.count,
                  row.last_channel - row.first_channel, strided, operand,
                  out_ + at * conv_.out_stride + row.first_channel, step * conv_.out_stride);
  }

  const Conv2d& conv_;
  const Window& window_;
  const Source& source_;
  const float* packed_;
  const Epilogue& epilogue_;
  float* out_;
  Scratch sizes_;
  float* zeros_;
  std::byte* workers_;
  DepthwiseRowFn run_row_;
  bool is_fused_ = false;
  Epilogue bounds_;  ///< of a clamp that the row function applies
};

void run_depthwise(const Conv2d& conv, const float* in, const float* packed, const int32_t*,
                   const Epilogue& epilogue, float* out, void* scratch, ThreadPool& pool) {
  const Source source{.in = in, .stride = conv.in.stride};
  DepthwiseRun(conv, source, packed, epilogue, out, scratch).run(pool);
}

size_t any_depthwise_scratch_bytes(const Conv2d& conv, int num_threads) {
  const int64_t taps = conv.window.kernel_h * conv.window.kernel_w;
  return static_cast<size_t>(round_up(taps * 12 + conv.channels_out * 4, 64) * num_threads);
}

void run_any_depthwise(const Conv2d& conv, const float* in, const float* packed, const int32_t*,
                       const Epilogue& epilogue, float* out, void* scratch, ThreadPool& pool) {
  const Window& window = conv.window;
  const DepthwisePixelFn run_pixel = depthwise_pixel_fn();
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
                           .scratch = Scratch(conv, false).bytes(conv, num_threads)};
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

bool can_fuse_expand(const ConvPlan& expand, const ConvPlan& depthwise) {
  const Conv2d& a = expand.conv;
  const Conv2d& b = depthwise.conv;
  return expand.kernel == &kConvPointwise && depthwise.kernel == &kConvDepthwise &&
         a.channels_out == b.in.channels && a.in.batch == b.in.batch &&
         a.in.height == b.in.height && a.in.width == b.in.width;
}

bool is_fusing_expand_faster(const ConvPlan& expand, const ConvPlan& depthwise) {
  const Image& image = depthwise.conv.in;
  const int64_t expanded = image.height * image.width * image.channels;
  return can_fuse_expand(expand, depthwise) && expanded >= kWorthKeeping;
}

size_t fused_expand_scratch_bytes(const ConvPlan& depthwise, int num_threads) {
  return Scratch(depthwise.conv, true).bytes(depthwise.conv, num_threads);
}

void run_fused_expand(const ConvPlan& expand, const float* in, const float* expand_packed,
                      const Epilogue& expand_epilogue, const ConvPlan& depthwise,
                      const float* packed, const Epilogue& epilogue, float* out, void* scratch,
                      ThreadPool& pool) {
  const Source source{.in = in,
                      .stride = expand.conv.in.stride,
                      .expand = &expand.conv,
                      .packed = expand_packed,
                      .epilogue = &expand_epilogue};
  DepthwiseRun(depthwise.conv, source, packed, epilogue, out, scratch).run(pool);
}

}  // namespace downhaul::kernels

// Winograd's F(4x4, 3x3): all tiles of the input are transformed, 36 matrix products [tiles,
// channels] · [channels, channels_out] follow, and the results are transformed back. Errors: see
// winograd_tile.cc; at most 2e-7 of the largest sum of absolute products were seen.
// Packed weights: [36] packed matrices (see gemm.h) without bias, then the bias.
#include <algorithm>

#include "kernels/conv/finish.h"
#include "kernels/conv/kernel.h"
#include "kernels/conv/winograd_tile.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile.h"

namespace downhaul::kernels {
namespace {

/// With less of both the transforms cost what the products save; with more the transformed weights,
/// four times as many, come from memory once per image.
constexpr int64_t kLeastChannels = 32;
constexpr int64_t kMostWeights = 320 * 320;
constexpr int64_t kLeastTiles = 8;
/// Elements of input below which another thread is not worth waking.
constexpr int64_t kGrain = 16384;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

struct Tiles {
  int64_t rows, columns, count;
  explicit Tiles(const Conv2d& conv)
      : rows((conv.height_out() + kWinogradOut - 1) / kWinogradOut),
        columns((conv.width_out() + kWinogradOut - 1) / kWinogradOut),
        count(conv.in.batch * rows * columns) {}
};

/// Distance of rows of the matrices: whole cache lines, and not a power of two.
int64_t row_floats(int64_t channels) { return round_up(channels, 16) + 16; }

size_t matrix_floats(const Conv2d& conv) {
  return packed_b_bytes(conv.channels_out, conv.in.channels) / sizeof(float);
}

bool can_run(const Conv2d& conv) {
  const Window& w = conv.window;
  return conv.groups == 1 && !conv.planes_in && w.kernel_h == 3 && w.kernel_w == 3 &&
         w.stride_h == 1 && w.stride_w == 1 && w.dilation_h == 1 && w.dilation_w == 1 &&
         conv.in.channels >= kLeastChannels && conv.channels_out >= kLeastChannels &&
         conv.in.channels * conv.channels_out <= kMostWeights && Tiles(conv).count >= kLeastTiles;
}

/// Scratch: zeros, the transformed input, the products, and per worker one tile of results.
struct Scratch {
  int64_t zeros, in, products, tile;  // floats
  explicit Scratch(const Conv2d& conv)
      : zeros(round_up(conv.in.channels, 16)),
        in(kWinogradProducts * Tiles(conv).count * row_floats(conv.in.channels)),
        products(kWinogradProducts * Tiles(conv).count * row_floats(conv.channels_out)),
        tile(kWinogradOut * kWinogradOut * round_up(conv.channels_out, 16)) {}
};

ConvSizes sizes(const Conv2d& conv, int num_threads) {
  const Scratch s(conv);
  return {.packed = (kWinogradProducts * matrix_floats(conv) +
                     static_cast<size_t>(round_up(conv.channels_out, 16))) *
                    sizeof(float),
          .scratch = static_cast<size_t>(s.zeros + s.in + s.products + s.tile * num_threads) *
                     sizeof(float)};
}

/// u = G g G^T in f64.
void transform_weights(const float* g, float* u) {
  constexpr double kA = 0.70710678118654752440;  // sqrt(1/2)
  static constexpr double kG[6][3] = {{1, 0, 0},
                                      {-2.0 / 3, -2 * kA / 3, -1.0 / 3},
                                      {-2.0 / 3, 2 * kA / 3, -1.0 / 3},
                                      {1.0 / 6, kA / 3, 1.0 / 3},
                                      {1.0 / 6, -kA / 3, 1.0 / 3},
                                      {0, 0, 1}};
  for (int i = 0; i < 6; ++i) {
    double row[3];
    for (int j = 0; j < 3; ++j) {
      row[j] = 0;
      for (int k = 0; k < 3; ++k) row[j] += kG[i][k] * static_cast<double>(g[3 * k + j]);
    }
    for (int j = 0; j < 6; ++j) {
      u[6 * i + j] = static_cast<float>(row[0] * kG[j][0] + row[1] * kG[j][1] + row[2] * kG[j][2]);
    }
  }
}

void pack(const Conv2d& conv, const float* weight, const float* bias, float* packed,
          ThreadPool& pool) {
  const int64_t channels = conv.in.channels;
  const int64_t channels_out = conv.channels_out;
  const auto matrix = static_cast<int64_t>(matrix_floats(conv));
  // As pack_b lays it out: [panel][bias 32][k][32].
  pool.run((channels_out + kPanel - 1) / kPanel, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t panel = begin; panel < end; ++panel) {
      float* to = packed + panel * kPanel * (channels + 1);
      for (int p = 0; p < kWinogradProducts; ++p) {
        std::fill_n(to + p * matrix, kPanel * (channels + 1), 0.0f);
      }
      for (int64_t o = panel * kPanel; o < std::min((panel + 1) * kPanel, channels_out); ++o) {
        for (int64_t c = 0; c < channels; ++c) {
          float u[kWinogradProducts];
          transform_weights(weight + (o * channels + c) * 9, u);
          for (int p = 0; p < kWinogradProducts; ++p) {
            to[p * matrix + (c + 1) * kPanel + o % kPanel] = u[p];
          }
        }
      }
    }
  });
  float* to = packed + kWinogradProducts * matrix;
  std::fill_n(to, round_up(channels_out, 16), 0.0f);
  if (bias != nullptr) std::copy_n(bias, channels_out, to);
}

/// All tiles of the input to [product][tile][channels].
void transform_inputs(const Conv2d& conv, const float* in, const float* zeros, float* to,
                      ThreadPool& pool) {
  const Tiles tiles(conv);
  const WinogradInFn transform = winograd_in_fn();
  const int64_t channels = conv.in.channels;
  const int64_t row = row_floats(channels);
  pool.run(tiles.count, std::max<int64_t>(1, kGrain / (36 * channels)),
           [&](int64_t begin, int64_t end, int) {
             for (int64_t t = begin; t < end; ++t) {
               const int64_t x0 = t % tiles.columns * kWinogradOut - conv.window.left;
               const int64_t y0 = t / tiles.columns % tiles.rows * kWinogradOut - conv.window.top;
               const int64_t n = t / (tiles.columns * tiles.rows);
               const float* pixels[kWinogradProducts];
               for (int i = 0; i < kWinogradIn; ++i) {
                 for (int j = 0; j < kWinogradIn; ++j) {
                   const int64_t y = y0 + i;
                   const int64_t x = x0 + j;
                   const bool inside = y >= 0 && y < conv.in.height && x >= 0 && x < conv.in.width;
                   pixels[kWinogradIn * i + j] =
                       inside ? in + ((n * conv.in.height + y) * conv.in.width + x) * conv.in.stride
                              : zeros;
                 }
               }
               transform(pixels, channels, to + t * row, tiles.count * row);
             }
           });
}

/// The 36 products.
void multiply(const Conv2d& conv, const float* a, const float* packed, float* products,
              ThreadPool& pool) {
  const int64_t count = Tiles(conv).count;
  const TileTable& table = tile_table();
  const int64_t k = conv.in.channels;
  const int64_t panels = (conv.channels_out + kPanel - 1) / kPanel;
  const int64_t row_tiles = (count + table.mr - 1) / table.mr;
  const auto matrix = static_cast<int64_t>(matrix_floats(conv));
  const Epilogue plain;
  TileArgs base;
  base.lda = row_floats(k);
  base.run = k;
  base.ldb = kPanel;
  base.ldc = row_floats(conv.channels_out);
  base.epilogue = &plain;
  // The next panel is fetched by all row tiles, 8 cache lines for each four steps of k.
  base.prefetch_lines = static_cast<int>((8 + row_tiles - 1) / row_tiles);
  const int64_t tasks = kWinogradProducts * panels;
  pool.run(tasks, panels, [&](int64_t begin, int64_t end, int) {
    TileArgs args = base;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t product = task / panels;
      const int64_t column = task % panels * kPanel;
      const float* panel = packed + product * matrix + column * (k + 1);
      const auto* next = reinterpret_cast<const char*>(panel + (k + 1) * kPanel);
      args.b = panel + kPanel;
      args.columns = std::min(kPanel, conv.channels_out - column);
      for (int64_t t = 0; t < row_tiles; ++t) {
        const int64_t first = count * t / row_tiles;
        args.a = a + (product * count + first) * base.lda;
        args.c = products + (product * count + first) * base.ldc + column;
        const int64_t fetched = t * (k / 4) * base.prefetch_lines;
        const bool fetches = task + 1 < tasks && fetched < k * 2;
        args.prefetch = next + fetched * 64;
        args.prefetch_lines = fetches ? base.prefetch_lines : 0;
        table.rows[count * (t + 1) / row_tiles - first](args);
      }
    }
  });
}

void transform_results(const Conv2d& conv, const float* products, const float* bias,
                       const Epilogue& epilogue, float* out, float* worker_tiles,
                       ThreadPool& pool) {
  const Tiles tiles(conv);
  const WinogradOutFn transform = winograd_out_fn();
  const int64_t channels = conv.channels_out;
  const int64_t row = row_floats(channels);
  const int64_t height = conv.height_out();
  const int64_t width = conv.width_out();
  const bool is_clamp =
      epilogue.activation == Activation::kNone || epilogue.activation == Activation::kClamp;
  const bool is_fused = is_clamp && epilogue.combine == Combine::kNone && epilogue.scale == 1.0f;
  Epilogue bounds;
  if (is_fused && epilogue.activation == Activation::kClamp) bounds = epilogue;
  const int64_t held_stride = round_up(channels, 16);
  pool.run(tiles.count, std::max<int64_t>(1, kGrain / (36 * channels)),
           [&](int64_t begin, int64_t end, int worker) {
             float* held = worker_tiles + worker * kWinogradOut * kWinogradOut * held_stride;
             for (int64_t t = begin; t < end; ++t) {
               const int64_t x0 = t % tiles.columns * kWinogradOut;
               const int64_t y0 = t / tiles.columns % tiles.rows * kWinogradOut;
               const int64_t n = t / (tiles.columns * tiles.rows);
               const int64_t rows = std::min<int64_t>(kWinogradOut, height - y0);
               const int64_t columns = std::min<int64_t>(kWinogradOut, width - x0);
               const int64_t first = (n * height + y0) * width + x0;
               float* results[kWinogradOut * kWinogradOut] = {};
               for (int64_t i = 0; i < rows; ++i) {
                 for (int64_t j = 0; j < columns; ++j) {
                   const int64_t r = kWinogradOut * i + j;
                   results[r] = is_fused ? out + (first + i * width + j) * conv.out_stride
                                         : held + r * held_stride;
                 }
               }
               transform(products + t * row, tiles.count * row, bias, channels, bounds.lo,
                         bounds.hi, results);
               for (int64_t i = 0; i < rows && !is_fused; ++i) {
                 const int64_t at = first + i * width;
                 const float* operand = epilogue.combine == Combine::kNone
                                            ? nullptr
                                            : epilogue.operand + at * epilogue.operand_stride;
                 finish_pixels(held + i * kWinogradOut * held_stride, held_stride, columns,
                               channels, epilogue, operand, out + at * conv.out_stride,
                               conv.out_stride);
               }
             }
           });
}

void run(const Conv2d& conv, const float* in, const float* packed, const int32_t*,
         const Epilogue& epilogue, float* out, void* memory, ThreadPool& pool) {
  const Scratch s(conv);
  auto* zeros = static_cast<float*>(memory);
  float* transformed = zeros + s.zeros;
  float* products = transformed + s.in;
  std::fill_n(zeros, s.zeros, 0.0f);
  transform_inputs(conv, in, zeros, transformed, pool);
  multiply(conv, transformed, packed, products, pool);
  const float* bias = packed + kWinogradProducts * static_cast<int64_t>(matrix_floats(conv));
  transform_results(conv, products, bias, epilogue, out, products + s.products, pool);
}

}  // namespace

const ConvKernel kConvWinograd = {
    .name = "winograd",
    .reassociates = true,
    .can_run = can_run,
    .sizes = sizes,
    .pack = pack,
    .build_table = nullptr,
    .run = run,
};

}  // namespace downhaul::kernels

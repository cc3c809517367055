#include "kernels/image/image.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/strings.h"
#include "kernels/guarded_buffer.h"
#include "kernels/isa.h"

namespace downhaul::kernels {
namespace {

using Floats = GuardedBuffer<float>;

size_t elements(const Image& image) {
  return static_cast<size_t>((image.batch * image.height * image.width - 1) * image.stride +
                             image.channels);
}

void randomize(Floats& buffer) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& x : buffer) x = uniform(random);
}

float at(const Floats& buffer, const Image& image, int64_t n, int64_t y, int64_t x, int64_t c) {
  return buffer[static_cast<size_t>(((n * image.height + y) * image.width + x) * image.stride + c)];
}

/// Runs on every ISA by 1, 2 and 3 threads; compares each result with `expected` and all runs of
/// one ISA with each other; what lies between pixels stays untouched.
void check(const Image& out, const std::function<void(float*, ThreadPool&)>& run,
           const std::function<float(int64_t, int64_t, int64_t, int64_t)>& expected,
           float tolerance, const std::string& what) {
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      Floats buffer(elements(out));
      run(buffer.data(), pool);
      if (threads > 1) {
        ASSERT_EQ(0, std::memcmp(first.data(), buffer.data(), first.size() * sizeof(float)))
            << what << " differs with " << threads << " threads on " << name(isa);
        continue;
      }
      first.assign(buffer.begin(), buffer.end());
      for (int64_t n = 0; n < out.batch; ++n) {
        for (int64_t y = 0; y < out.height; ++y) {
          for (int64_t x = 0; x < out.width; ++x) {
            for (int64_t c = 0; c < out.channels; ++c) {
              const float want = expected(n, y, x, c);
              const float found = at(buffer, out, n, y, x, c);
              if (std::isnan(want) && std::isnan(found)) continue;
              ASSERT_TRUE(found == want || std::abs(found - want) <= tolerance)
                  << what << " on " << name(isa) << " at " << n << "," << y << "," << x << "," << c
                  << ": expected " << want << ", found " << found;
            }
          }
        }
      }
      for (size_t i = 0; i < first.size(); ++i) {
        if (static_cast<int64_t>(i) % out.stride >= out.channels) {
          ASSERT_TRUE(std::isnan(first[i])) << what << ": written between pixels";
        }
      }
    }
  }
}

Image pooled(const Image& in, const Window& w, bool ceil) {
  const auto count = [ceil](int64_t size, int64_t extent, int64_t stride, int64_t before,
                            int64_t after) {
    const int64_t free = size + before + after - extent;
    if (!ceil) return free / stride + 1;
    return std::min((free + stride - 1) / stride + 1, (size + before - 1) / stride + 1);
  };
  Image out = in;
  out.height = count(in.height, w.dilation_h * (w.kernel_h - 1) + 1, w.stride_h, w.top, w.bottom);
  out.width = count(in.width, w.dilation_w * (w.kernel_w - 1) + 1, w.stride_w, w.left, w.right);
  out.stride = in.channels + 2;
  return out;
}

const Window kWindows[] = {{2, 2, 2, 2, 0, 0, 0, 0, 1, 1},
                           {3, 3, 2, 2, 1, 1, 1, 1, 1, 1},
                           {3, 3, 1, 1, 1, 1, 1, 1, 1, 1},
                           {5, 3, 3, 2, 2, 0, 1, 2, 1, 1},
                           {1, 1, 3, 3, 0, 0, 0, 0, 1, 1}};

TEST(MaxPool, TakesTheLargestOfEachWindow) {
  for (const int64_t channels : {1, 3, 15, 16, 17, 37, 67}) {
    const Image in{2, 9, 11, channels, channels + 1};
    Floats from(elements(in));
    randomize(from);
    std::vector<Window> windows(std::begin(kWindows), std::end(kWindows));
    windows.push_back({3, 2, 1, 2, 1, 0, 0, 1, 2, 3});
    for (const Window& w : windows) {
      for (const bool ceil : {false, true}) {
        const Image out = pooled(in, w, ceil);
        check(
            out,
            [&](float* to, ThreadPool& pool) { max_pool2d(in, out, w, from.data(), to, pool); },
            [&](int64_t n, int64_t y, int64_t x, int64_t c) {
              float best = -std::numeric_limits<float>::infinity();
              for (int64_t i = 0; i < w.kernel_h; ++i) {
                for (int64_t j = 0; j < w.kernel_w; ++j) {
                  const int64_t row = y * w.stride_h - w.top + i * w.dilation_h;
                  const int64_t column = x * w.stride_w - w.left + j * w.dilation_w;
                  if (row < 0 || row >= in.height || column < 0 || column >= in.width) continue;
                  best = std::max(best, at(from, in, n, row, column, c));
                }
              }
              return best;
            },
            0, cat("max_pool2d of ", channels, " channels"));
      }
    }
  }
}

TEST(MaxPool, NanWins) {
  const Image in{1, 3, 3, 18, 18};
  Floats from(elements(in));
  randomize(from);
  from[17] = from[4 * 18 + 3] = from[8 * 18] = std::nanf("");
  const Image out{1, 1, 1, 18, 18};
  check(
      out,
      [&](float* to, ThreadPool& pool) {
        max_pool2d(in, out, {3, 3, 1, 1}, from.data(), to, pool);
      },
      [&](int64_t, int64_t, int64_t, int64_t c) {
        if (c == 17 || c == 3 || c == 0) return std::nanf("");
        float best = -2;
        for (size_t p = 0; p < 9; ++p) best = std::max(best, from[p * 18 + static_cast<size_t>(c)]);
        return best;
      },
      0, "max_pool2d with NaN");
}

TEST(AvgPool, DividesByTheElementsThatCount) {
  for (const int64_t channels : {1, 15, 16, 17, 67}) {
    const Image in{2, 9, 11, channels, channels + 1};
    Floats from(elements(in));
    randomize(from);
    for (const Window& w : kWindows) {
      for (const int variant : {0, 1, 2, 3, 4}) {
        const Image out = pooled(in, w, variant % 2 == 1);
        const bool include = variant < 2;
        const double divisor = variant == 4 ? 7 : 0;
        check(
            out,
            [&](float* to, ThreadPool& pool) {
              avg_pool2d(in, out, w, include, divisor, from.data(), to, pool);
            },
            [&](int64_t n, int64_t y, int64_t x, int64_t c) {
              double sum = 0;
              int64_t inner = 0;
              int64_t all = 0;
              for (int64_t i = 0; i < w.kernel_h; ++i) {
                for (int64_t j = 0; j < w.kernel_w; ++j) {
                  const int64_t row = y * w.stride_h - w.top + i;
                  const int64_t column = x * w.stride_w - w.left + j;
                  all += row < in.height + w.bottom && column < in.width + w.right ? 1 : 0;
                  if (row < 0 || row >= in.height || column < 0 || column >= in.width) continue;
                  ++inner;
                  sum += static_cast<double>(at(from, in, n, row, column, c));
                }
              }
              return static_cast<float>(
                  sum / (divisor != 0 ? divisor : static_cast<double>(include ? all : inner)));
            },
            // 15 elements of at most 1, and the quotient.
            15 * 4e-7f, cat("avg_pool2d of ", channels, " channels"));
      }
    }
  }
}

TEST(AdaptiveAvgPool, AveragesBins) {
  for (const int64_t channels : {1, 15, 17, 64, 67, 130}) {
    for (const auto& [height, width] :
         {std::pair<int64_t, int64_t>{1, 1}, {2, 3}, {7, 5}, {9, 13}}) {
      const Image in{2, 9, 11, channels, channels + 1};
      const Image out{2, height, width, channels, channels + 3};
      Floats from(elements(in));
      randomize(from);
      Floats scratch(static_cast<size_t>(adaptive_avg_pool2d_scratch(in, out)));
      check(
          out,
          [&](float* to, ThreadPool& pool) {
            adaptive_avg_pool2d(in, out, from.data(), to, scratch.data(), pool);
          },
          [&](int64_t n, int64_t y, int64_t x, int64_t c) {
            double sum = 0;
            int64_t count = 0;
            for (int64_t i = y * 9 / out.height; i < ((y + 1) * 9 + out.height - 1) / out.height;
                 ++i) {
              for (int64_t j = x * 11 / out.width; j < ((x + 1) * 11 + out.width - 1) / out.width;
                   ++j) {
                sum += static_cast<double>(at(from, in, n, i, j, c));
                ++count;
              }
            }
            return static_cast<float>(sum / static_cast<double>(count));
          },
          11 * 1.2e-7f, cat("adaptive_avg_pool2d of ", channels, " channels"));
    }
  }
}

TEST(Resize, BilinearMixesFourElementsInBothLayouts) {
  for (const int64_t channels : {1, 3, 16, 21, 67}) {
    for (const auto& [height, width] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 4}, {5, 7}, {20, 31}, {10, 40}}) {
      for (const bool align : {false, true}) {
        for (const double scale : {0.0, 1.7}) {
          const Image in{2, 5, 7, channels, channels + 2};
          const Image out{2, height, width, channels, channels + 1};
          std::vector<ResizeTap> rows(static_cast<size_t>(height));
          std::vector<ResizeTap> columns(static_cast<size_t>(width));
          bilinear_taps(5, height, align, scale, rows.data());
          bilinear_taps(7, width, align, scale, columns.data());
          Floats from(elements(in));
          randomize(from);
          const auto position = [&](int64_t i, int64_t size, int64_t count) {
            double step = static_cast<double>(size) / static_cast<double>(count);
            if (scale != 0) step = 1 / scale;
            const double source =
                align ? (count > 1
                             ? static_cast<double>(i * (size - 1)) / static_cast<double>(count - 1)
                             : 0.0)
                      : std::max(0.0, (static_cast<double>(i) + 0.5) * step - 0.5);
            return std::min(source, static_cast<double>(size - 1));
          };
          const auto expected = [&](int64_t n, int64_t y, int64_t x, int64_t c) {
            const double down = position(y, 5, height);
            const double right = position(x, 7, width);
            const auto row = static_cast<int64_t>(down);
            const auto column = static_cast<int64_t>(right);
            const double v = down - static_cast<double>(row);
            const double h = right - static_cast<double>(column);
            const auto get = [&](int64_t i, int64_t j) {
              return static_cast<double>(at(from, in, n, std::min<int64_t>(row + i, 4),
                                            std::min<int64_t>(column + j, 6), c));
            };
            return static_cast<float>((get(0, 0) * (1 - h) + get(0, 1) * h) * (1 - v) +
                                      (get(1, 0) * (1 - h) + get(1, 1) * h) * v);
          };
          check(
              out,
              [&](float* to, ThreadPool& pool) {
                resize_bilinear(in, out, rows.data(), columns.data(), from.data(), to, pool);
              },
              expected, 1e-6f, cat("resize_bilinear of ", channels, " channels"));
          // The same numbers as planes, bit for bit.
          Floats planes(static_cast<size_t>(2 * channels * 35));
          for (int64_t i = 0; i < 2 * channels * 35; ++i) {
            planes[static_cast<size_t>(i)] =
                at(from, in, i / (channels * 35), i / 7 % 5, i % 7, i / 35 % channels);
          }
          ThreadPool one(1);
          Floats pixels(elements(out));
          resize_bilinear(in, out, rows.data(), columns.data(), from.data(), pixels.data(), one);
          const Image flat{1, 2 * channels * height, width, 1, 1};
          check(
              flat,
              [&](float* to, ThreadPool& pool) {
                Floats scratch(
                    static_cast<size_t>(resize_planes_scratch(width, pool.num_threads())));
                resize_bilinear_planes(2 * channels, 5, 7, height, width, rows.data(),
                                       columns.data(), planes.data(), to, scratch.data(), pool);
              },
              [&](int64_t, int64_t y, int64_t x, int64_t) {
                const int64_t plane = y / height;
                return at(pixels, out, plane / channels, y % height, x, plane % channels);
              },
              0, cat("resize_bilinear_planes of ", channels, " channels"));
        }
      }
    }
  }
}

TEST(Resize, PlanesLargerThanCachesAreTheSame) {
  const Image in{1, 30, 20, 2, 2};
  const Image out{1, 1500, 1499, 2, 2};
  std::vector<ResizeTap> rows(1500);
  std::vector<ResizeTap> columns(1499);
  bilinear_taps(30, 1500, false, 0, rows.data());
  bilinear_taps(20, 1499, false, 0, columns.data());
  Floats from(elements(in));
  randomize(from);
  Floats planes(elements(in));
  for (size_t i = 0; i < planes.size(); ++i) planes[i] = from[i % 600 * 2 + i / 600];
  ThreadPool one(1);
  Floats pixels(elements(out));
  resize_bilinear(in, out, rows.data(), columns.data(), from.data(), pixels.data(), one);
  check(
      {1, 2 * 1500, 1499, 1, 1},
      [&](float* to, ThreadPool& pool) {
        Floats scratch(static_cast<size_t>(resize_planes_scratch(1499, pool.num_threads())));
        resize_bilinear_planes(2, 30, 20, 1500, 1499, rows.data(), columns.data(), planes.data(),
                               to, scratch.data(), pool);
      },
      [&](int64_t, int64_t y, int64_t x, int64_t) {
        return at(pixels, out, 0, y % 1500, x, y / 1500);
      },
      0, "large planes");
}

TEST(Resize, NearestShowsOneElement) {
  const Image in{2, 5, 7, 19, 20};
  const Image out{2, 8, 3, 19, 21};
  std::vector<int32_t> rows(8);
  std::vector<int32_t> columns(3);
  nearest_indices(5, 8, 0, rows.data());
  nearest_indices(7, 3, 0, columns.data());
  EXPECT_EQ(rows, (std::vector<int32_t>{0, 0, 1, 1, 2, 3, 3, 4}));
  EXPECT_EQ(columns, (std::vector<int32_t>{0, 2, 4}));
  Floats from(elements(in));
  randomize(from);
  check(
      out,
      [&](float* to, ThreadPool& pool) {
        resize_nearest(in, out, rows.data(), columns.data(), from.data(), to, pool);
      },
      [&](int64_t n, int64_t y, int64_t x, int64_t c) {
        return at(from, in, n, rows[static_cast<size_t>(y)], columns[static_cast<size_t>(x)], c);
      },
      0, "resize_nearest");
  std::vector<int32_t> scaled(4);
  nearest_indices(2, 4, 1.5, scaled.data());
  EXPECT_EQ(scaled, (std::vector<int32_t>{0, 0, 1, 1}));
}

TEST(ScaleChannels, MultipliesEachChannelAlsoInPlace) {
  for (const int64_t channels : {1, 15, 16, 33, 67}) {
    const Image in{3, 4, 5, channels, channels + 2};
    Image out = in;
    out.stride = channels + 1;
    Floats from(elements(in));
    randomize(from);
    Floats scale(static_cast<size_t>(3 * channels));
    randomize(scale);
    const auto expected = [&](int64_t n, int64_t y, int64_t x, int64_t c) {
      return at(from, in, n, y, x, c) * scale[static_cast<size_t>(n * channels + c)];
    };
    check(
        out,
        [&](float* to, ThreadPool& pool) {
          scale_channels(in, scale.data(), from.data(), to, out.stride, pool);
        },
        expected, 0, cat("scale_channels of ", channels));
    check(
        in,
        [&](float* to, ThreadPool& pool) {
          std::copy(from.begin(), from.end(), to);
          scale_channels(in, scale.data(), to, to, in.stride, pool);
          for (size_t i = 0; i < elements(in); ++i) {
            if (static_cast<int64_t>(i) % in.stride >= channels) to[i] = std::nanf("");
          }
        },
        expected, 0, cat("scale_channels of ", channels, " in place"));
  }
}

template <typename T>
void check_permute(const std::vector<int64_t>& sizes, const std::vector<int64_t>& order) {
  const int rank = static_cast<int>(sizes.size());
  const int64_t count =
      std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  GuardedBuffer<T> from(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    from[static_cast<size_t>(i)] = static_cast<T>(i * 2654435761 + 11);
  }
  const PermutePlan plan = plan_permute_dims(rank, sizes.data(), order.data(), sizeof(T));
  for (const Isa isa : supported_isas()) {
    const ScopedIsa scoped(isa);
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      GuardedBuffer<T> to(static_cast<size_t>(count));
      permute(plan, from.data(), to.data(), pool);
      for (int64_t i = 0; i < count; ++i) {
        int64_t rest = i;
        int64_t source = 0;
        for (int d = rank - 1; d >= 0; --d) {
          const int64_t dim = order[static_cast<size_t>(d)];
          const int64_t index = rest % sizes[static_cast<size_t>(dim)];
          rest /= sizes[static_cast<size_t>(dim)];
          int64_t stride = 1;
          for (int64_t e = dim + 1; e < rank; ++e) stride *= sizes[static_cast<size_t>(e)];
          source += index * stride;
        }
        ASSERT_EQ(to[static_cast<size_t>(i)], from[static_cast<size_t>(source)])
            << "permute [" << join(sizes, ",") << "] by [" << join(order, ",") << "] of "
            << sizeof(T) << " bytes at " << i;
      }
    }
  }
}

TEST(Permute, EveryOrderMovesEveryElement) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{2, 3, 17, 5}, {1, 33, 16, 4}, {3, 1, 1, 70}, {2, 16, 1, 32}}) {
    std::vector<int64_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      check_permute<uint32_t>(sizes, order);
      check_permute<uint8_t>(sizes, order);
      check_permute<uint16_t>(sizes, order);
      check_permute<uint64_t>(sizes, order);
    } while (std::next_permutation(order.begin(), order.end()));
  }
  for (int64_t n = 1; n <= 67; n += 3) {
    check_permute<uint32_t>({n, 19}, {1, 0});
    check_permute<uint32_t>({3, n, 37}, {0, 2, 1});
  }
  check_permute<uint32_t>({3, 70, 700}, {2, 1, 0});
  check_permute<uint32_t>({2, 0, 3}, {2, 1, 0});
  check_permute<uint32_t>({}, {});
  check_permute<uint32_t>({1, 1}, {1, 0});
}

TEST(Permute, StridesOfZeroRepeat) {
  const std::vector<int64_t> sizes{3, 4};
  const std::vector<int64_t> from_strides{0, 1};
  const std::vector<int64_t> to_strides{5, 1};
  const PermutePlan plan = plan_permute(2, sizes.data(), from_strides.data(), to_strides.data(), 4);
  Floats from(4);
  randomize(from);
  Floats to(14);
  ThreadPool pool(2);
  permute(plan, from.data(), to.data(), pool);
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 4; ++j) EXPECT_EQ(to[i * 5 + j], from[j]);
  }
  EXPECT_TRUE(std::isnan(to[4]));
}

}  // namespace
}  // namespace downhaul::kernels

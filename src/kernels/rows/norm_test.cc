#include "kernels/rows/norm.h"

#include <algorithm>

#include "kernels/kernel_test.h"

namespace downhaul::kernels {
namespace {

/// Normalises v in f64 and checks `found`. The bound: a mean of n numbers from 64 partial sums is
/// off by (n/64 + 8) eps of their largest; the deviation by as much, relatively; then a handful of
/// roundings.
void expect_normalized(const std::vector<double>& v, const double* weight, const double* bias,
                       double eps, const float* found) {
  const auto n = static_cast<double>(v.size());
  double sum = 0;
  double largest = 0;
  for (const double x : v) {
    sum += x;
    largest = std::max(largest, std::abs(x));
  }
  const double mean = sum / n;
  double squares = 0;
  for (const double x : v) squares += (x - mean) * (x - mean);
  const double inverse = 1 / std::sqrt(squares / n + eps);
  const double steps = n / 64 + 8;
  for (size_t i = 0; i < v.size(); ++i) {
    const double w = weight == nullptr ? 1 : weight[i];
    const double b = bias == nullptr ? 0 : bias[i];
    const double y = (v[i] - mean) * inverse * w + b;
    const double bound = kEps * (steps * (2 * largest * inverse * std::abs(w)) +
                                 (steps + 8) * std::abs(y - b) + 2 * std::abs(y) + std::abs(b));
    ASSERT_NEAR(found[i], y, bound) << "element " << i << " of " << v.size();
  }
}

std::vector<double> as_doubles(const GuardedBuffer<float>& x) { return {x.begin(), x.end()}; }

TEST(LayerNorm, AgreesWithF64ForEveryWidthAndWithoutTouchingWhatLiesBehind) {
  std::vector<int64_t> widths;
  for (int64_t w = 1; w <= 67; ++w) widths.push_back(w);
  widths.insert(widths.end(), {127, 129, 384, 768, 1000, 4097});
  on_every_isa_and_pool([&](ThreadPool& pool) {
    for (const int64_t width : widths) {
      const auto n = static_cast<size_t>(width);
      const int64_t rows = 5;
      GuardedBuffer<float> in(n * rows);
      GuardedBuffer<float> weight(n);
      GuardedBuffer<float> bias(n);
      GuardedBuffer<float> out(n * rows);
      fill_random(in, 1, 3.0, 2.0);
      fill_random(weight, 2);
      fill_random(bias, 3);
      const std::vector<double> w = as_doubles(weight);
      const std::vector<double> b = as_doubles(bias);
      for (int affine = 0; affine < 4; ++affine) {
        const bool has_weight = (affine & 1) != 0;
        const bool has_bias = (affine & 2) != 0;
        layer_norm({.rows = rows,
                    .width = width,
                    .eps = 1e-5f,
                    .in = in.data(),
                    .in_stride = width,
                    .weight = has_weight ? weight.data() : nullptr,
                    .bias = has_bias ? bias.data() : nullptr,
                    .out = out.data(),
                    .out_stride = width},
                   pool);
        for (int64_t row = 0; row < rows; ++row) {
          const float* x = in.data() + row * width;
          expect_normalized({x, x + width}, has_weight ? w.data() : nullptr,
                            has_bias ? b.data() : nullptr, static_cast<double>(1e-5f),
                            out.data() + row * width);
        }
      }
    }
  });
}

TEST(LayerNorm, AddsAResidualAndKeepsTheSum) {
  on_every_isa_and_pool([](ThreadPool& pool) {
    for (const int64_t width : {1, 15, 16, 33, 64, 100, 768}) {
      const int64_t rows = 3;
      const int64_t stride = width + 5;
      const auto n = static_cast<size_t>(stride * (rows - 1) + width);
      GuardedBuffer<float> in(n);
      GuardedBuffer<float> residual(n);
      GuardedBuffer<float> sum(n);
      GuardedBuffer<float> out(n);
      fill_random(in, 1);
      fill_random(residual, 2);
      LayerNorm call{.rows = rows,
                     .width = width,
                     .in = in.data(),
                     .in_stride = stride,
                     .residual = residual.data(),
                     .residual_stride = stride,
                     .sum = sum.data(),
                     .sum_stride = stride,
                     .out = out.data(),
                     .out_stride = stride};
      layer_norm(call, pool);
      for (int64_t row = 0; row < rows; ++row) {
        std::vector<double> v;
        for (int64_t i = 0; i < width; ++i) {
          const auto at = static_cast<size_t>(row * stride + i);
          const float x = in[at] + residual[at];
          ASSERT_EQ(sum[at], x);
          v.push_back(static_cast<double>(x));
        }
        expect_normalized(v, nullptr, nullptr, static_cast<double>(1e-5f),
                          out.data() + row * stride);
      }
      // The same without a place for the sum, and over the input.
      const std::vector<float> expected = copy_of(out);
      call.sum = nullptr;
      call.out = in.data();
      layer_norm(call, pool);
      for (int64_t row = 0; row < rows; ++row) {
        ASSERT_TRUE(same_bits(expected.data() + row * stride, in.data() + row * stride,
                              static_cast<size_t>(width)));
      }
    }
  });
}

TEST(LayerNorm, GivesTheSameBitsOnEveryIsaAndNumberOfThreads) {
  for (const int64_t width : {1, 7, 63, 65, 768, 1027}) {
    std::vector<float> expected;
    on_every_isa_and_pool([&](ThreadPool& pool) {
      const int64_t rows = 64;
      GuardedBuffer<float> in(static_cast<size_t>(rows * width));
      GuardedBuffer<float> out(in.size());
      fill_random(in, 5, 100.0, 1.0);
      layer_norm({.rows = rows,
                  .width = width,
                  .in = in.data(),
                  .in_stride = width,
                  .out = out.data(),
                  .out_stride = width},
                 pool);
      if (expected.empty()) expected = copy_of(out);
      ASSERT_TRUE(same_bits(expected.data(), out.data(), out.size()));
    });
  }
}

TEST(GroupNorm, NormalizesEachGroupOfChannels) {
  on_every_isa_and_pool([](ThreadPool& pool) {
    for (const int64_t plane : {1, 5, 49, 67, 1500}) {
      for (const int64_t groups : {1, 2, 6}) {
        const int64_t batch = 2;
        const int64_t channels = 6;
        GuardedBuffer<float> in(static_cast<size_t>(batch * channels * plane));
        GuardedBuffer<float> out(in.size());
        GuardedBuffer<float> weight(6);
        GuardedBuffer<float> bias(6);
        fill_random(in, 1, -2.0);
        fill_random(weight, 2);
        fill_random(bias, 3);
        group_norm({.batch = batch,
                    .channels = channels,
                    .groups = groups,
                    .plane = plane,
                    .in = in.data(),
                    .weight = weight.data(),
                    .bias = bias.data(),
                    .out = out.data()},
                   pool);
        const int64_t count = channels / groups * plane;
        for (int64_t g = 0; g < batch * groups; ++g) {
          const float* x = in.data() + g * count;
          std::vector<double> w;
          std::vector<double> b;
          for (int64_t i = 0; i < count; ++i) {
            const auto c = static_cast<size_t>(g % groups * (channels / groups) + i / plane);
            w.push_back(static_cast<double>(weight[c]));
            b.push_back(static_cast<double>(bias[c]));
          }
          expect_normalized({x, x + count}, w.data(), b.data(), static_cast<double>(1e-5f),
                            out.data() + g * count);
        }
      }
    }
  });
}

TEST(ChannelAffine, MultipliesAndAddsByChannelInBothLayouts) {
  on_every_isa_and_pool([](ThreadPool& pool) {
    for (const int64_t channels : {1, 3, 16, 33}) {
      for (const int64_t plane : {1, 2, 17, 64}) {
        GuardedBuffer<float> in(static_cast<size_t>(3 * channels * plane));
        GuardedBuffer<float> out(in.size());
        GuardedBuffer<float> scale(static_cast<size_t>(channels));
        GuardedBuffer<float> shift(scale.size());
        fill_random(in, 1);
        fill_random(scale, 2);
        fill_random(shift, 3);
        channel_affine(3, channels, plane, in.data(), scale.data(), shift.data(), out.data(), pool);
        for (size_t i = 0; i < in.size(); ++i) {
          const auto c = i / static_cast<size_t>(plane) % static_cast<size_t>(channels);
          const float product = in[i] * scale[c];
          ASSERT_EQ(out[i], product + shift[c]) << i;
        }
      }
    }
  });
}

TEST(BatchNormAffine, FoldsStatisticsInF64) {
  const float weight[] = {2.0f, -1.0f};
  const float bias[] = {0.5f, 0.0f};
  const float mean[] = {1.0f, -3.0f};
  const float var[] = {4.0f, 0.25f};
  float scale[2];
  float shift[2];
  batch_norm_affine(2, weight, bias, mean, var, 0.0, scale, shift);
  EXPECT_EQ(scale[0], 1.0f);
  EXPECT_EQ(shift[0], -0.5f);
  EXPECT_EQ(scale[1], -2.0f);
  EXPECT_EQ(shift[1], -6.0f);
  batch_norm_affine(2, nullptr, nullptr, mean, var, 0.0, scale, shift);
  EXPECT_EQ(scale[1], 2.0f);
  EXPECT_EQ(shift[1], 6.0f);
}

}  // namespace
}  // namespace downhaul::kernels

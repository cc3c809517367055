#include "kernels/conv/conv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "base/strings.h"
#include "kernels/conv/kernel.h"
#include "kernels/guarded_buffer.h"
#include "kernels/isa.h"

namespace downhaul::kernels {
namespace {

using Floats = GuardedBuffer<float>;

std::string describe(const Conv2d& c) {
  const Window& w = c.window;
  return cat("in ", c.in.batch, "x", c.in.height, "x", c.in.width, "x", c.in.channels, "/",
             c.in.stride, " out ", c.channels_out, "/", c.out_stride, " groups ", c.groups,
             " kernel ", w.kernel_h, "x", w.kernel_w, " stride ", w.stride_h, ",", w.stride_w,
             " padding ", w.top, ",", w.left, ",", w.bottom, ",", w.right, " dilation ",
             w.dilation_h, ",", w.dilation_w, c.planes_in ? " planes" : "");
}

struct Data {
  std::vector<float> in, weight, bias, operand;
};

Data random_data(const Conv2d& conv, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  const int64_t pixels_out = conv.in.batch * conv.height_out() * conv.width_out();
  Data data;
  const int64_t in_stride = conv.planes_in ? conv.in.channels : conv.in.stride;
  data.in.resize(static_cast<size_t>(
      (conv.in.batch * conv.in.height * conv.in.width - 1) * in_stride + conv.in.channels));
  data.weight.resize(static_cast<size_t>(conv.channels_out * conv.in.channels / conv.groups *
                                         conv.window.kernel_h * conv.window.kernel_w));
  data.bias.resize(static_cast<size_t>(conv.channels_out));
  data.operand.resize(static_cast<size_t>(pixels_out * conv.channels_out));
  for (auto* v : {&data.in, &data.weight, &data.bias, &data.operand}) {
    for (float& x : *v) x = uniform(random);
  }
  return data;
}

float activated(const Epilogue& e, float x) {
  const float up = std::min(std::max(x + 3, 0.0f), 6.0f);
  switch (e.activation) {
    case Activation::kNone:
      return x;
    case Activation::kClamp:
      return std::min(std::max(x, e.lo), e.hi);
    case Activation::kHardSwish:
      return x * up / 6;
    case Activation::kHardSigmoid:
      return up / 6;
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    default:
      ADD_FAILURE() << "no formula";
      return 0;
  }
}

/// The formula of conv.h, [pixel][channel] dense. `magnitude` gets the sum of absolute values.
std::vector<float> reference(const Conv2d& conv, const Data& data, const Epilogue& epilogue,
                             std::vector<float>* magnitude) {
  const Window& w = conv.window;
  const int64_t group_in = conv.in.channels / conv.groups;
  const int64_t group_out = conv.channels_out / conv.groups;
  std::vector<float> out;
  for (int64_t n = 0; n < conv.in.batch; ++n) {
    for (int64_t y = 0; y < conv.height_out(); ++y) {
      for (int64_t x = 0; x < conv.width_out(); ++x) {
        for (int64_t o = 0; o < conv.channels_out; ++o) {
          float sum = data.bias[static_cast<size_t>(o)];
          float size = std::abs(sum);
          for (int64_t i = 0; i < w.kernel_h; ++i) {
            for (int64_t j = 0; j < w.kernel_w; ++j) {
              const int64_t row = y * w.stride_h - w.top + i * w.dilation_h;
              const int64_t column = x * w.stride_w - w.left + j * w.dilation_w;
              if (row < 0 || row >= conv.in.height || column < 0 || column >= conv.in.width) {
                continue;
              }
              for (int64_t c = 0; c < group_in; ++c) {
                const int64_t channel = o / group_out * group_in + c;
                const int64_t at =
                    conv.planes_in
                        ? ((n * conv.in.channels + channel) * conv.in.height + row) *
                                  conv.in.width +
                              column
                        : ((n * conv.in.height + row) * conv.in.width + column) * conv.in.stride +
                              channel;
                const float a = data.in[static_cast<size_t>(at)];
                const float b = data.weight[static_cast<size_t>(
                    ((o * group_in + c) * w.kernel_h + i) * w.kernel_w + j)];
                sum = std::fma(a, b, sum);
                size += std::abs(a * b);
              }
            }
          }
          sum *= epilogue.scale;
          const float other = data.operand[out.size()];
          if (epilogue.combine == Combine::kAddBefore) sum += other;
          sum = activated(epilogue, sum);
          if (epilogue.combine == Combine::kAddAfter) sum += other;
          if (epilogue.combine == Combine::kMultiplyAfter) sum *= other;
          out.push_back(sum);
          magnitude->push_back(size);
        }
      }
    }
  }
  return out;
}

/// Runs one row over buffers that end at pages that may not be touched.
std::vector<float> run_row(const ConvKernel& kernel, const Conv2d& conv, const Data& data,
                           Epilogue epilogue, bool in_place, int threads) {
  static ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  ThreadPool& pool = pools[threads - 1];
  const ConvPlan plan = plan_conv2d_with(kernel, conv, threads);
  const int64_t pixels = conv.in.batch * conv.height_out() * conv.width_out();
  Floats in(data.in.size());
  Floats weight(data.weight.size());
  Floats bias(data.bias.size());
  std::copy(data.in.begin(), data.in.end(), in.begin());
  std::copy(data.weight.begin(), data.weight.end(), weight.begin());
  std::copy(data.bias.begin(), data.bias.end(), bias.begin());
  Floats packed(plan.packed_bytes / sizeof(float));
  GuardedBuffer<int32_t> table(plan.table_bytes / sizeof(int32_t));
  // Scratch is 64-byte aligned for its users.
  GuardedBuffer<std::byte> scratch((plan.scratch_bytes + 63) / 64 * 64);
  Floats out(static_cast<size_t>((pixels - 1) * conv.out_stride + conv.channels_out));
  Floats operand(data.operand.size());
  std::copy(data.operand.begin(), data.operand.end(), operand.begin());
  if (epilogue.combine != Combine::kNone) {
    epilogue.operand = operand.data();
    epilogue.operand_stride = conv.channels_out;
    if (in_place) {
      epilogue.operand = out.data();
      epilogue.operand_stride = conv.out_stride;
      for (int64_t p = 0; p < pixels; ++p) {
        std::copy_n(operand.data() + p * conv.channels_out, conv.channels_out,
                    out.data() + p * conv.out_stride);
      }
    }
  }
  pack_conv2d(plan, weight.data(), bias.data(), packed.data(), pool);
  build_conv2d_table(plan, table.data());
  run_conv2d(plan, in.data(), packed.data(), table.data(), epilogue, out.data(), scratch.data(),
             pool);
  std::vector<float> dense;
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t c = 0; c < conv.channels_out; ++c) {
      dense.push_back(out[static_cast<size_t>(p * conv.out_stride + c)]);
    }
    for (int64_t c = conv.channels_out; c < conv.out_stride && p + 1 < pixels; ++c) {
      EXPECT_TRUE(std::isnan(out[static_cast<size_t>(p * conv.out_stride + c)]))
          << "written between pixels";
    }
  }
  return dense;
}

/// Of the largest sum of absolute products: three times the largest error seen with random data of
/// 32 to 256 channels (2e-7).
constexpr float kWinogradError = 6e-7f;

/// Every row that can run `conv`, on every ISA and by 1, 2 and 3 threads.
void check(const Conv2d& conv, const Epilogue& epilogue, bool in_place = false) {
  const Data data = random_data(conv, 7);
  std::vector<float> magnitude;
  const std::vector<float> expected = reference(conv, data, epilogue, &magnitude);
  const float largest = *std::max_element(magnitude.begin(), magnitude.end());
  const bool exact_function =
      epilogue.activation == Activation::kNone || epilogue.activation == Activation::kClamp;
  for (const ConvKernel* kernel : conv_kernels()) {
    if (!kernel->can_run(conv)) continue;
    for (const Isa isa : supported_isas()) {
      const ScopedIsa scoped(isa);
      const bool fused = isa != Isa::kBaseline || name(isa) == "neon";
      const std::vector<float> found = run_row(*kernel, conv, data, epilogue, in_place, 1);
      const std::string what = cat(kernel->name, " ", name(isa), ": ", describe(conv));
      for (size_t i = 0; i < expected.size(); ++i) {
        const float terms =
            static_cast<float>(data.weight.size()) / static_cast<float>(conv.channels_out) + 4;
        float bound = std::numeric_limits<float>::epsilon() * magnitude[i] * 4 * terms;
        if (kernel->reassociates) bound = kWinogradError * largest;
        if (fused && exact_function && !kernel->reassociates) bound = 0;
        // Activations: a few ulp, and slopes up to 1.2.
        if (!exact_function) bound = 2 * bound + 2e-6f * (1 + std::abs(expected[i]));
        ASSERT_LE(std::abs(found[i] - expected[i]), bound)
            << what << " at pixel " << i / static_cast<size_t>(conv.channels_out) << " channel "
            << i % static_cast<size_t>(conv.channels_out) << ": expected " << expected[i]
            << ", found " << found[i];
      }
      // How work is shared does not depend on the ISA.
      if (isa != supported_isas().back()) continue;
      for (const int threads : {2, 3}) {
        const std::vector<float> again = run_row(*kernel, conv, data, epilogue, in_place, threads);
        ASSERT_EQ(0, std::memcmp(found.data(), again.data(), found.size() * sizeof(float)))
            << what << ": differs with " << threads << " threads";
      }
    }
  }
}

Conv2d conv_of(int64_t batch, int64_t height, int64_t width, int64_t channels, int64_t channels_out,
               int64_t groups, const Window& window) {
  return {.in = {batch, height, width, channels, channels},
          .channels_out = channels_out,
          .groups = groups,
          .window = window,
          .out_stride = channels_out};
}

Window square(int64_t kernel, int64_t stride, int64_t padding, int64_t dilation = 1) {
  return {kernel, kernel, stride, stride, padding, padding, padding, padding, dilation, dilation};
}

TEST(Conv2d, PointwiseTakesAnyNumberOfChannels) {
  for (const int64_t channels : {1, 2, 5, 15, 16, 17, 31, 32, 33, 67}) {
    for (const int64_t channels_out : {1, 7, 16, 31, 32, 33, 67}) {
      check(conv_of(1, 3, 5, channels, channels_out, 1, square(1, 1, 0)), {});
    }
  }
  check(conv_of(2, 7, 9, 24, 40, 1, square(1, 2, 0)), {});
  check(conv_of(2, 4, 4, 8, 12, 1, square(1, 1, 1)), {});
}

TEST(Conv2d, EveryWindowGivesTheSumOfItsTaps) {
  for (const int64_t kernel : {2, 3, 5}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (const int64_t padding : {0, 2}) {
        for (const int64_t dilation : {1, 2}) {
          const Window window = square(kernel, stride, padding, dilation);
          if (7 + 2 * padding < dilation * (kernel - 1) + 1) continue;
          check(conv_of(1, 7, 9, 6, 9, 1, window), {});
          check(conv_of(2, 7, 9, 3, 34, 1, window), {});
          check(conv_of(1, 7, 9, 19, 19, 19, window), {});
          check(conv_of(1, 7, 9, 4, 12, 4, window), {});
          check(conv_of(1, 7, 9, 12, 6, 3, window), {});
        }
      }
    }
  }
}

TEST(Conv2d, PaddingMayDifferOnEachSide) {
  for (const Window& window :
       {Window{3, 5, 1, 2, 1, 0, 2, 4, 1, 1}, Window{3, 3, 2, 1, 0, 2, 1, 0, 2, 1},
        Window{1, 3, 1, 1, 0, 1, 0, 1, 1, 2}, Window{3, 1, 1, 1, 5, 0, 5, 0, 1, 1},
        Window{3, 3, 1, 1, 0, 6, 0, 6, 1, 1}, Window{2, 4, 3, 2, 1, 1, 0, 2, 1, 1}}) {
    check(conv_of(2, 6, 5, 8, 8, 8, window), {});
    check(conv_of(2, 6, 5, 3, 17, 1, window), {});
    check(conv_of(2, 6, 5, 10, 5, 5, window), {});
  }
}

TEST(Conv2d, DepthwiseTakesAnyNumberOfChannelsAndColumns) {
  for (int64_t channels = 2; channels <= 67; channels += channels < 36 ? 1 : 7) {
    check(conv_of(1, 4, 7, channels, channels, channels, square(3, 1, 1)), {});
    check(conv_of(1, 5, 6, channels, channels, channels, square(5, 2, 2)), {});
  }
  for (int64_t width = 1; width <= 19; ++width) {
    check(conv_of(1, 3, width, 20, 20, 20, square(3, 1, 1)), {});
    check(conv_of(1, 3, width, 20, 20, 20, square(3, 2, 1)), {});
    check(conv_of(1, 3, width, 20, 20, 20, square(5, 1, 4, 2)), {});
    check(conv_of(1, 3, width, 20, 20, 20, square(7, 1, 3)), {});
  }
  // Cut into groups of channels.
  check(conv_of(1, 7, 7, 300, 300, 300, square(5, 1, 4, 2)), {});
}

TEST(Conv2d, SlicesOfChannelsAreImages) {
  for (const Window& window : {square(1, 1, 0), square(3, 1, 1), square(3, 2, 1)}) {
    for (const int64_t groups : {1, 2, 18}) {
      Conv2d conv = conv_of(2, 5, 6, 18, 18, groups, window);
      conv.in.stride = 23;
      conv.out_stride = 29;
      check(conv, {});
    }
  }
}

TEST(Conv2d, TheFirstLayerReadsPlanes) {
  for (const int64_t channels : {1, 3, 4}) {
    for (const int64_t stride : {1, 2}) {
      Conv2d conv = conv_of(2, 13, 11, channels, 20, 1, square(3, stride, 1));
      conv.planes_in = true;
      ASSERT_TRUE(can_read_planes(conv));
      check(conv, {});
      check(
          [&] {
            Conv2d large = conv;
            large.window = square(7, 2, 3);
            return large;
          }(),
          {});
    }
  }
}

TEST(Conv2d, EpiloguesApplyToEveryRow) {
  const Conv2d convs[] = {conv_of(1, 5, 6, 18, 37, 1, square(1, 1, 0)),
                          conv_of(1, 5, 6, 3, 21, 1, square(3, 2, 1)),
                          conv_of(1, 5, 6, 8, 37, 1, square(3, 1, 1)),
                          conv_of(1, 5, 9, 37, 37, 37, square(3, 1, 1)),
                          conv_of(1, 5, 9, 37, 37, 37, square(5, 1, 4, 2)),
                          conv_of(1, 5, 9, 5, 10, 5, square(3, 1, 1)),
                          conv_of(1, 5, 6, 8, 12, 2, square(3, 1, 1))};
  for (const Conv2d& conv : convs) {
    Conv2d strided = conv;
    strided.out_stride += 3;
    for (const Activation activation :
         {Activation::kNone, Activation::kClamp, Activation::kHardSwish, Activation::kHardSigmoid,
          Activation::kSilu}) {
      for (const Combine combine :
           {Combine::kNone, Combine::kAddBefore, Combine::kAddAfter, Combine::kMultiplyAfter}) {
        Epilogue epilogue{.activation = activation, .combine = combine};
        if (activation == Activation::kClamp) {
          epilogue.lo = 0;
          epilogue.hi = 0.75f;
        }
        check(strided, epilogue);
        if (combine != Combine::kNone) check(strided, epilogue, /*in_place=*/true);
      }
    }
    check(strided, Epilogue{.activation = Activation::kClamp, .lo = 0, .scale = 0.5f});
  }
}

TEST(Conv2d, WinogradStaysCloseToTheSums) {
  for (const auto& [channels, channels_out] :
       {std::pair<int64_t, int64_t>{32, 32}, {37, 50}, {128, 33}}) {
    for (const int64_t padding : {0, 1}) {
      check(conv_of(1, 13, 15, channels, channels_out, 1, square(3, 1, padding)), {});
    }
  }
  Conv2d conv = conv_of(2, 10, 9, 40, 36, 1, Window{3, 3, 1, 1, 0, 2, 1, 0});
  conv.in.stride = 43;
  conv.out_stride = 41;
  for (const Combine combine : {Combine::kNone, Combine::kAddBefore}) {
    for (const Activation activation : {Activation::kNone, Activation::kClamp, Activation::kSilu}) {
      const Epilogue epilogue{.activation = activation, .combine = combine, .lo = 0};
      check(conv, epilogue, combine != Combine::kNone);
    }
  }
  conv.may_reassociate = true;
  EXPECT_EQ(kernel_name(plan_conv2d(conv, 1)), "winograd");
  conv.may_reassociate = false;
  EXPECT_EQ(kernel_name(plan_conv2d(conv, 1)), "indirect");
}

TEST(Conv2d, PackedWeightsServeEveryImageSize) {
  for (const int64_t groups : {int64_t{1}, int64_t{16}}) {
    const ConvPlan small = plan_conv2d(conv_of(1, 4, 4, 16, 16, groups, square(3, 1, 1)), 2);
    const ConvPlan large = plan_conv2d(conv_of(3, 40, 30, 16, 16, groups, square(3, 1, 1)), 2);
    EXPECT_EQ(small.kernel, large.kernel);
    EXPECT_EQ(small.packed_bytes, large.packed_bytes);
  }
}

TEST(GatedWeights, StandForAGatedImage) {
  for (const int64_t channels : {1, 17, 40}) {
    for (const int64_t channels_out : {5, 32, 70}) {
      const Conv2d conv = conv_of(1, 9, 8, channels, channels_out, 1, square(1, 1, 0));
      Data data = random_data(conv, 9);
      std::vector<float> gate(static_cast<size_t>(channels));
      for (size_t c = 0; c < gate.size(); ++c) gate[c] = 0.25f + 0.01f * static_cast<float>(c);
      Data gated_data = data;
      for (size_t i = 0; i < data.in.size(); ++i) gated_data.in[i] *= gate[i % gate.size()];
      std::vector<float> magnitude;
      const std::vector<float> expected = reference(conv, gated_data, {}, &magnitude);
      for (const Isa isa : supported_isas()) {
        const ScopedIsa scoped(isa);
        for (const int threads : {1, 3}) {
          ThreadPool pool(threads);
          const ConvPlan plan = plan_conv2d(conv, threads);
          ASSERT_TRUE(can_gate(plan));
          Floats packed(plan.packed_bytes / sizeof(float));
          Floats gated(plan.packed_bytes / sizeof(float));
          Floats out(expected.size());
          pack_conv2d(plan, data.weight.data(), data.bias.data(), packed.data(), pool);
          gate_weights(plan, packed.data(), gate.data(), gated.data(), pool);
          run_conv2d(plan, data.in.data(), gated.data(), nullptr, {}, out.data(), nullptr, pool);
          for (size_t i = 0; i < expected.size(); ++i) {
            ASSERT_LE(std::abs(out[i] - expected[i]),
                      4e-7f * static_cast<float>(channels + 2) * magnitude[i])
                << "at " << i << " of " << describe(conv) << " on " << name(isa);
          }
        }
      }
    }
  }
}

TEST(FusedExpand, GivesTheBitsOfOneAfterTheOther) {
  struct Case {
    int64_t batch, height, width, channels, expanded;
    Window window;
    Activation activation;
    Combine combine;
  };
  const Case cases[] = {
      {1, 9, 11, 5, 35, square(3, 1, 1), Activation::kClamp, Combine::kNone},
      {2, 15, 9, 16, 40, square(3, 2, 1), Activation::kHardSwish, Combine::kNone},
      {1, 30, 17, 8, 67, square(5, 1, 4, 2), Activation::kSilu, Combine::kAddAfter},
      {3, 6, 31, 3, 16, square(5, 2, 2), Activation::kNone, Combine::kAddBefore},
      {1, 40, 8, 4, 7, square(3, 1, 0), Activation::kClamp, Combine::kMultiplyAfter},
  };
  for (const Case& c : cases) {
    Conv2d first = conv_of(c.batch, c.height, c.width, c.channels, c.expanded, 1, square(1, 1, 0));
    Conv2d second =
        conv_of(c.batch, c.height, c.width, c.expanded, c.expanded, c.expanded, c.window);
    first.in.stride += 1;
    second.out_stride += 2;
    const Data a = random_data(first, 3);
    const Data b = random_data(second, 4);
    const int64_t pixels = c.batch * second.height_out() * second.width_out();
    const Epilogue between{.activation = c.activation, .lo = 0, .hi = 6, .scale = 0.75f};
    Epilogue after{.activation = c.activation, .combine = c.combine, .lo = -1, .hi = 1};
    if (c.combine != Combine::kNone) after.operand = b.operand.data();
    after.operand_stride = c.expanded;
    for (const Isa isa : supported_isas()) {
      const ScopedIsa scoped(isa);
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        const ConvPlan expand = plan_conv2d(first, threads);
        const ConvPlan depthwise = plan_conv2d(second, threads);
        ASSERT_TRUE(can_fuse_expand(expand, depthwise));
        Floats packed_a(expand.packed_bytes / 4);
        Floats packed_b(depthwise.packed_bytes / 4);
        pack_conv2d(expand, a.weight.data(), a.bias.data(), packed_a.data(), pool);
        pack_conv2d(depthwise, b.weight.data(), b.bias.data(), packed_b.data(), pool);
        const size_t out_size = static_cast<size_t>((pixels - 1) * second.out_stride + c.expanded);
        Floats in(a.in.size());
        std::copy(a.in.begin(), a.in.end(), in.begin());
        std::vector<float> middle(static_cast<size_t>(c.batch * c.height * c.width * c.expanded));
        std::vector<float> expected(out_size, 5);
        GuardedBuffer<std::byte> scratch((depthwise.scratch_bytes + 63) / 64 * 64);
        run_conv2d(expand, in.data(), packed_a.data(), nullptr, between, middle.data(), nullptr,
                   pool);
        run_conv2d(depthwise, middle.data(), packed_b.data(), nullptr, after, expected.data(),
                   scratch.data(), pool);
        Floats found(out_size);
        std::fill(found.begin(), found.end(), 5.0f);
        GuardedBuffer<std::byte> more((fused_expand_scratch_bytes(depthwise, threads) + 63) / 64 *
                                      64);
        run_fused_expand(expand, in.data(), packed_a.data(), between, depthwise, packed_b.data(),
                         after, found.data(), more.data(), pool);
        ASSERT_EQ(0, std::memcmp(expected.data(), found.data(), out_size * sizeof(float)))
            << describe(second) << " on " << name(isa) << " with " << threads << " threads";
      }
    }
  }
}

}  // namespace
}  // namespace downhaul::kernels

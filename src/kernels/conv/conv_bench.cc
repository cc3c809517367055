// Times the convolutions of whole networks, layer after layer as a network runs them:
//   conv_bench [--threads N] [--runs N] [--network NAME-PREFIX] [--quiet] [--reassociate]
//   [--no-fusing]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "kernels/conv/conv.h"
#include "kernels/isa.h"
#include "kernels/peak.h"

namespace downhaul::kernels {
namespace {

struct Layer {
  int64_t height, width, channels, channels_out, kernel, stride, padding, dilation, groups;
  Activation activation;
  bool has_residual;

  bool operator==(const Layer&) const = default;
};
struct Network {
  const char* name;
  std::vector<Layer> layers;
};

std::vector<Network> networks() {
  std::vector<Network> all;
#define DH_NETWORK(name) all.push_back({name, {}});
#define DH_LAYER(h, w, c, o, k, s, p, d, g, activation, residual) \
  all.back().layers.push_back({h, w, c, o, k, s, p, d, g, Activation::activation, residual});
#include "kernels/conv/layers.inc"
#undef DH_LAYER
#undef DH_NETWORK
  return all;
}

template <typename T>
struct Free {
  void operator()(T* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<float, Free<float>>;
Buffer allocate(size_t bytes) {
  return Buffer(static_cast<float*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64)));
}

/// One layer of a network, ready to run.
struct Step {
  const Layer* layer;
  ConvPlan plan;
  Epilogue epilogue;
  Buffer packed;
  Buffer table;
  bool fuses_next = false;

  const int32_t* offsets() const { return reinterpret_cast<const int32_t*>(table.get()); }
};

void fill(float* to, int64_t count, float size) {
  static std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-size, size);
  for (int64_t i = 0; i < count; ++i) to[i] = uniform(random);
}

int64_t multiply_adds(const Conv2d& c) {
  return c.in.batch * c.height_out() * c.width_out() * c.channels_out * c.in.channels / c.groups *
         c.window.kernel_h * c.window.kernel_w;
}

struct Options {
  int threads = 1;
  int runs = 20;
  std::string_view network;
  bool quiet = false;
  bool reassociate = false;
  bool fuse = true;
};

Step prepare(const Layer& l, const Options& options, ThreadPool& pool) {
  const Conv2d conv{.in = {1, l.height, l.width, l.channels, image_stride(l.channels)},
                    .channels_out = l.channels_out,
                    .groups = l.groups,
                    .window = {l.kernel, l.kernel, l.stride, l.stride, l.padding, l.padding,
                               l.padding, l.padding, l.dilation, l.dilation},
                    .out_stride = image_stride(l.channels_out),
                    .planes_in = l.channels == 3,
                    .may_reassociate = options.reassociate};
  Step step{.layer = &l, .plan = plan_conv2d(conv, options.threads)};
  const int64_t depth = l.channels / l.groups * l.kernel * l.kernel;
  const Buffer weight = allocate(static_cast<size_t>(l.channels_out * depth) * 4);
  // Keeps the size of activations from layer to layer.
  fill(weight.get(), l.channels_out * depth, 2.4f / std::sqrt(static_cast<float>(depth)));
  const Buffer bias = allocate(static_cast<size_t>(l.channels_out) * 4);
  fill(bias.get(), l.channels_out, 0.1f);
  step.packed = allocate(step.plan.packed_bytes);
  step.table = allocate(step.plan.table_bytes);
  pack_conv2d(step.plan, weight.get(), bias.get(), step.packed.get(), pool);
  build_conv2d_table(step.plan, reinterpret_cast<int32_t*>(step.table.get()));
  step.epilogue.activation = l.activation;
  if (l.activation == Activation::kClamp) step.epilogue.lo = 0;
  if (l.has_residual) step.epilogue.combine = Combine::kAddBefore;
  step.epilogue.operand_stride = conv.out_stride;
  return step;
}

/// A network with its buffers.
class Bench {
 public:
  Bench(const Network& network, const Options& options)
      : options_(options), pool_(options.threads) {
    for (const Layer& l : network.layers) steps_.push_back(prepare(l, options, pool_));
    size_t scratch_bytes = 0;
    size_t most = 0;
    for (size_t i = 0; i < steps_.size(); ++i) {
      const Conv2d& conv = steps_[i].plan.conv;
      const int64_t in = conv.in.height * conv.in.width * conv.in.stride;
      const int64_t out = conv.height_out() * conv.width_out() * conv.out_stride;
      most = std::max(most, static_cast<size_t>(std::max(in, out)));
      scratch_bytes = std::max(scratch_bytes, steps_[i].plan.scratch_bytes);
      if (!options.fuse || i + 1 == steps_.size() || steps_[i].layer->has_residual) continue;
      const ConvPlan& next = steps_[i + 1].plan;
      if (!is_fusing_expand_faster(steps_[i].plan, next)) continue;
      steps_[i].fuses_next = true;
      scratch_bytes = std::max(scratch_bytes, fused_expand_scratch_bytes(next, options.threads));
    }
    scratch_ = allocate(scratch_bytes);
    for (Buffer* b : {&in_, &out_, &residual_}) {
      *b = allocate(most * 4);
      fill(b->get(), static_cast<int64_t>(most), 1);
    }
  }

  /// One pass; adds the seconds of each step to `seconds`.
  double run(std::vector<std::vector<double>>* seconds) {
    using Clock = std::chrono::steady_clock;
    double total = 0;
    for (size_t i = 0; i < steps_.size(); ++i) {
      Step& s = steps_[i];
      if (s.layer->has_residual) s.epilogue.operand = residual_.get();
      const auto start = Clock::now();
      if (s.fuses_next) {
        const Step& next = steps_[i + 1];
        run_fused_expand(s.plan, in_.get(), s.packed.get(), s.epilogue, next.plan,
                         next.packed.get(), next.epilogue, out_.get(), scratch_.get(), pool_);
      } else {
        run_conv2d(s.plan, in_.get(), s.packed.get(), s.offsets(), s.epilogue, out_.get(),
                   scratch_.get(), pool_);
      }
      const std::chrono::duration<double> taken = Clock::now() - start;
      std::swap(in_, out_);
      total += taken.count();
      if (seconds != nullptr) (*seconds)[i].push_back(taken.count());
      if (s.fuses_next) ++i;
    }
    return total;
  }

  const std::vector<Step>& steps() const { return steps_; }

 private:
  Options options_;
  ThreadPool pool_;
  std::vector<Step> steps_;
  Buffer scratch_, in_, out_, residual_;
};

/// Layers that are alike in one line.
void print_layers(const std::vector<Step>& steps, const std::vector<std::vector<double>>& seconds,
                  double total, double peak) {
  std::vector<bool> printed(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (printed[i] || seconds[i].empty()) continue;
    const Layer& l = *steps[i].layer;
    double time = 0;
    int64_t count = 0;
    int times = 0;
    for (size_t j = i; j < steps.size(); ++j) {
      if (!(*steps[j].layer == l) || steps[j].fuses_next != steps[i].fuses_next) continue;
      if (l.groups == 1 && steps[i].fuses_next && !(*steps[j + 1].layer == *steps[i + 1].layer)) {
        continue;
      }
      printed[j] = true;
      ++times;
      if (seconds[j].empty()) continue;
      time += *std::min_element(seconds[j].begin(), seconds[j].end());
      count += multiply_adds(steps[j].plan.conv);
      if (steps[j].fuses_next) count += multiply_adds(steps[j + 1].plan.conv);
    }
    const double rate = 2e-9 * static_cast<double>(count) / time;
    std::printf("  %3dx%-3d %4d -> %4d  %dx%d s%d d%d g%-4d %-13s", static_cast<int>(l.height),
                static_cast<int>(l.width), static_cast<int>(l.channels),
                static_cast<int>(l.channels_out), static_cast<int>(l.kernel),
                static_cast<int>(l.kernel), static_cast<int>(l.stride),
                static_cast<int>(l.dilation), static_cast<int>(l.groups),
                kernel_name(steps[i].plan).data());
    if (steps[i].fuses_next) {
      const Layer& next = *steps[i + 1].layer;
      std::printf("+ depthwise %dx%d s%d", static_cast<int>(next.kernel),
                  static_cast<int>(next.kernel), static_cast<int>(next.stride));
    }
    std::printf(" %dx %8.1f us %4.1f %%  %6.1f GFLOP/s %3.0f %%\n", times, 1e6 * time,
                100 * time / total, rate, 100 * rate / peak);
  }
}

void bench(const Network& network, const Options& options, double peak) {
  Bench run(network, options);
  std::vector<std::vector<double>> seconds(run.steps().size());
  std::vector<double> totals;
  for (int i = 0; i < 3; ++i) run.run(nullptr);
  for (int i = 0; i < options.runs; ++i) totals.push_back(run.run(&seconds));
  std::sort(totals.begin(), totals.end());
  int64_t count = 0;
  for (const Step& s : run.steps()) count += multiply_adds(s.plan.conv);
  const double best = totals.front();
  const double rate = 2e-9 * static_cast<double>(count) / best;
  // What a machine without disturbances would show.
  double sum = 0;
  for (const auto& s : seconds) {
    if (!s.empty()) sum += *std::min_element(s.begin(), s.end());
  }
  std::printf(
      "%-26s %d thread(s): median %7.3f ms, best %7.3f ms, sum of best layers %7.3f ms, %6.1f "
      "GFLOP/s, %3.0f %% of peak\n",
      network.name, options.threads, 1e3 * totals[totals.size() / 2], 1e3 * best, 1e3 * sum, rate,
      100 * rate / peak);
  if (!options.quiet) print_layers(run.steps(), seconds, best, peak);
}

}  // namespace
}  // namespace downhaul::kernels

int main(int argc, char** argv) {
  using namespace downhaul;
  kernels::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (arg == "--quiet") {
      options.quiet = true;
    } else if (arg == "--reassociate") {
      options.reassociate = true;
    } else if (arg == "--no-fusing") {
      options.fuse = false;
    } else if (arg == "--threads") {
      options.threads = std::max(1, std::atoi(value));
      ++i;
    } else if (arg == "--runs") {
      options.runs = std::max(1, std::atoi(value));
      ++i;
    } else if (arg == "--network") {
      options.network = value;
      ++i;
    } else {
      std::fprintf(stderr,
                   "usage: %s [--threads N] [--runs N] [--network PREFIX] [--quiet] "
                   "[--reassociate] [--no-fusing]\n",
                   argv[0]);
      return 2;
    }
  }
  if (const Status status = lower_isa_by_environment(); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.message().c_str());
    return 2;
  }
  const double peak = kernels::measure_fma_peak();
  std::printf("%s, %s, FMA peak %.1f GFLOP/s per thread\n", cpu_name().c_str(),
              std::string(name(active_isa())).c_str(), peak);
  for (const kernels::Network& network : kernels::networks()) {
    if (std::string_view(network.name).starts_with(options.network)) {
      kernels::bench(network, options, peak * options.threads);
    }
  }
  return 0;
}

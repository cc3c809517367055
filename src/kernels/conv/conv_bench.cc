// Times the convolutions of whole networks, layer after layer as a network runs them:
//   conv_bench [--threads N] [--runs N] [--network NAME-PREFIX] [--quiet] [--reassociate]
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
  int times;
};
struct Network {
  const char* name;
  std::vector<Layer> layers;
};

std::vector<Network> networks() {
  std::vector<Network> all;
#define DH_NETWORK(name) all.push_back({name, {}});
#define DH_LAYER(h, w, c, o, k, s, p, d, g, activation, residual, times) \
  all.back().layers.push_back({h, w, c, o, k, s, p, d, g, Activation::activation, residual, times});
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
};

void bench(const Network& network, const Options& options, double peak) {
  using Clock = std::chrono::steady_clock;
  ThreadPool pool(options.threads);
  std::vector<Step> steps;
  size_t scratch_bytes = 0;
  int64_t most = 0;
  for (const Layer& l : network.layers) {
    Conv2d conv{.in = {1, l.height, l.width, l.channels, l.channels},
                .channels_out = l.channels_out,
                .groups = l.groups,
                .window = {l.kernel, l.kernel, l.stride, l.stride, l.padding, l.padding, l.padding,
                           l.padding, l.dilation, l.dilation},
                .out_stride = l.channels_out,
                .planes_in = false,
                .may_reassociate = options.reassociate};
    conv.planes_in = l.channels == 3;
    most = std::max({most, l.height * l.width * l.channels,
                     conv.height_out() * conv.width_out() * l.channels_out});
    for (int i = 0; i < l.times; ++i) {
      Step step{.layer = &l, .plan = plan_conv2d(conv, options.threads)};
      const int64_t weights = l.channels_out * l.channels / l.groups * l.kernel * l.kernel;
      const Buffer weight = allocate(static_cast<size_t>(weights) * 4);
      // Keeps the size of activations from layer to layer.
      fill(weight.get(), weights, 2.4f / std::sqrt(static_cast<float>(weights / l.channels_out)));
      const Buffer bias = allocate(static_cast<size_t>(l.channels_out) * 4);
      fill(bias.get(), l.channels_out, 0.1f);
      step.packed = allocate(step.plan.packed_bytes);
      step.table = allocate(step.plan.table_bytes);
      pack_conv2d(step.plan, weight.get(), bias.get(), step.packed.get(), pool);
      build_conv2d_table(step.plan, reinterpret_cast<int32_t*>(step.table.get()));
      step.epilogue.activation = l.activation;
      if (l.activation == Activation::kClamp) step.epilogue.lo = 0;
      if (l.has_residual) step.epilogue.combine = Combine::kAddBefore;
      step.epilogue.operand_stride = l.channels_out;
      scratch_bytes = std::max(scratch_bytes, step.plan.scratch_bytes);
      steps.push_back(std::move(step));
    }
  }
  const Buffer scratch = allocate(scratch_bytes);
  Buffer in = allocate(static_cast<size_t>(most) * 4);
  Buffer out = allocate(static_cast<size_t>(most) * 4);
  const Buffer residual = allocate(static_cast<size_t>(most) * 4);
  for (float* b : {in.get(), out.get(), residual.get()}) fill(b, most, 1);

  std::vector<std::vector<double>> seconds(steps.size());
  std::vector<double> totals;
  for (int run = -3; run < options.runs; ++run) {
    double total = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      Step& s = steps[i];
      if (s.layer->has_residual) s.epilogue.operand = residual.get();
      const auto start = Clock::now();
      run_conv2d(s.plan, in.get(), s.packed.get(), reinterpret_cast<int32_t*>(s.table.get()),
                 s.epilogue, out.get(), scratch.get(), pool);
      const std::chrono::duration<double> taken = Clock::now() - start;
      std::swap(in, out);
      total += taken.count();
      if (run >= 0) seconds[i].push_back(taken.count());
    }
    if (run >= 0) totals.push_back(total);
  }

  const auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(v.size() / 2), v.end());
    return v[v.size() / 2];
  };
  int64_t all_multiply_adds = 0;
  for (size_t i = 0; i < steps.size(); ++i) all_multiply_adds += multiply_adds(steps[i].plan.conv);
  const double best = *std::min_element(totals.begin(), totals.end());
  const auto rate = [](int64_t count, double time) {
    return 2e-9 * static_cast<double>(count) / time;
  };
  const double total_rate = rate(all_multiply_adds, best);
  std::printf(
      "%-26s %d thread(s): median %7.3f ms, best %7.3f ms, %6.1f GFLOP/s, %3.0f %% of peak\n",
      network.name, options.threads, 1e3 * median(totals), 1e3 * best, total_rate,
      100 * total_rate / peak / options.threads);
  if (options.quiet) return;
  for (size_t i = 0; i < steps.size();) {
    const Layer& l = *steps[i].layer;
    double time = 0;
    size_t end = i;
    for (; end < steps.size() && steps[end].layer == &l; ++end) {
      time += *std::min_element(seconds[end].begin(), seconds[end].end());
    }
    const int64_t count = multiply_adds(steps[i].plan.conv) * l.times;
    std::printf(
        "  %3lldx%-3lld %4lld -> %4lld  %lldx%lld s%lld d%lld g%-4lld %-13s %dx %8.1f us "
        "%4.1f %%  %6.1f GFLOP/s %3.0f %%\n",
        static_cast<long long>(l.height), static_cast<long long>(l.width),
        static_cast<long long>(l.channels), static_cast<long long>(l.channels_out),
        static_cast<long long>(l.kernel), static_cast<long long>(l.kernel),
        static_cast<long long>(l.stride), static_cast<long long>(l.dilation),
        static_cast<long long>(l.groups), kernel_name(steps[i].plan).data(), l.times, 1e6 * time,
        100 * time / best, rate(count, time), 100 * rate(count, time) / peak / options.threads);
    i = end;
  }
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
                   "[--reassociate]\n",
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
      kernels::bench(network, options, peak);
    }
  }
  return 0;
}

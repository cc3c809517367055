// gemm_bench [threads] [name]: speed of matrix products and attention at the shapes of models, as a
// share of what this machine does at best, measured in the same run:
//   peak  register-only fused multiply-adds, one thread, times threads
//   tile  the register tile in use, on operands in the first cache
//   read  a sum over memory larger than the caches
// DOWNHAUL_ISA lowers the instruction set. Weights rotate through more memory than the last cache
// holds, as those of a model do, unless marked "hot". `name` picks the lines that contain it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile.h"
#include "kernels/isa.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../bench/kernels/gemm_bench.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
constexpr D kD;

/// Multiply-adds done by `rounds` rounds of independent chains.
double fma_rounds(int64_t rounds, float* sink) {
  constexpr int kChains = 12;
  hn::Vec<D> acc[kChains];
  for (auto& a : acc) a = hn::Set(kD, sink[0]);
  const auto x = hn::Set(kD, sink[1]);
  const auto y = hn::Set(kD, sink[2]);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) acc[i] = hn::MulAdd(acc[i], x, y);
  }
  for (auto& a : acc) sink[3] += hn::GetLane(a);
  return static_cast<double>(rounds) * kChains * static_cast<double>(hn::Lanes(kD));
}

float sum(const float* p, int64_t count) {
  hn::Vec<D> acc[4] = {hn::Zero(kD), hn::Zero(kD), hn::Zero(kD), hn::Zero(kD)};
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(kD));
  for (int64_t i = 0; i + 4 * lanes <= count; i += 4 * lanes) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) acc[j] = hn::Add(acc[j], hn::LoadU(kD, p + i + j * lanes));
  }
  return hn::GetLane(hn::Add(hn::Add(acc[0], acc[1]), hn::Add(acc[2], acc[3])));
}
}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
HWY_EXPORT(fma_rounds);
HWY_EXPORT(sum);
namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Floats = std::unique_ptr<float[], Free>;

Floats floats(int64_t count) {
  const size_t bytes = (static_cast<size_t>(count) * sizeof(float) + 4096 + 63) / 64 * 64;
  auto* p = static_cast<float*>(std::aligned_alloc(64, bytes));
  if (p == nullptr) std::abort();
  std::mt19937 engine(3);
  for (int64_t i = 0; i < count; ++i) p[i] = static_cast<float>(engine() >> 8) * 0x1p-24f - 0.5f;
  return Floats(p);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Times {
  double best;
  double median;
};
/// Seconds of one call, over at least 0.15 s and 15 calls.
Times measure(const std::function<void()>& body) {
  body();
  std::vector<double> all;
  const double start = now();
  while (now() - start < 0.15 || all.size() < 15) {
    const double t = now();
    body();
    all.push_back(now() - t);
  }
  std::sort(all.begin(), all.end());
  return {all.front(), all[all.size() / 2]};
}

struct Machine {
  double peak;  // flop/s
  double tile;
  double read;  // byte/s
};

double tile_speed() {
  constexpr int64_t kDepth = 128;
  constexpr int64_t kStride = kDepth + 16;
  const TileTable& table = tile_table();
  const Floats a = floats(table.mr * kStride);
  const Floats b = floats(kPanel * kDepth);
  const Floats c = floats(table.mr * kPanel);
  const Epilogue none;
  TileArgs args;
  args.a = a.get();
  args.lda = kStride;
  args.run = kDepth;
  args.b = b.get();
  args.ldb = kPanel;
  args.c = c.get();
  args.ldc = kPanel;
  args.columns = kPanel;
  args.epilogue = &none;
  const Times t = measure([&] {
    for (int i = 0; i < 1000; ++i) table.rows[table.mr](args);
  });
  return 2000.0 * table.mr * kPanel * kDepth / t.best;
}

Machine machine(ThreadPool& pool) {
  const double threads = pool.num_threads();
  Machine m{};
  float sink[4] = {1, 0.5f, 0.25f, 0};
  double done = 0;
  const Times peak = measure([&] { done = HWY_DYNAMIC_DISPATCH(fma_rounds)(100000, sink); });
  m.peak = threads * 2 * done / peak.best;
  m.tile = threads * tile_speed();
  const int64_t size = int64_t{32} << 20;
  const Floats memory = floats(size);
  volatile float total = 0;
  const Times read = measure([&] {
    pool.run(64, 1, [&](int64_t begin, int64_t end, int) {
      total = HWY_DYNAMIC_DISPATCH(sum)(memory.get() + begin * (size / 64),
                                        (end - begin) * (size / 64));
    });
  });
  m.read = static_cast<double>(size) * 4 / read.best;
  return m;
}

void line(const std::string& name, double flop, double bytes, const Times& t, const Machine& m) {
  std::printf("%-34s %9.1f %9.1f  %7.1f  %4.0f %% tile %4.0f %% peak", name.c_str(), t.median * 1e6,
              t.best * 1e6, flop / t.median * 1e-9, 100 * flop / t.median / m.tile,
              100 * flop / t.median / m.peak);
  if (bytes > 0) {
    std::printf("  %5.1f GB/s %4.0f %% read", bytes / t.median * 1e-9,
                100 * bytes / t.median / m.read);
  }
  std::printf("\n");
}

struct Product {
  int64_t m, n, k;
  const char* what;
  Activation activation = Activation::kNone;
  bool hot = false;
};

void bench_gemm(const Product& p, const Machine& machine, ThreadPool& pool) {
  const int64_t size = static_cast<int64_t>(packed_b_bytes(p.n, p.k) / sizeof(float));
  const int64_t copies = p.hot ? 1 : std::max<int64_t>(1, (int64_t{32} << 20) / size);
  const Floats a = floats(p.m * p.k);
  const Floats b = floats(size * copies);
  const Floats c = floats(p.m * p.n);
  Epilogue e;
  e.activation = p.activation;
  int64_t turn = 0;
  const Times t = measure([&] {
    turn = (turn + 1) % copies;
    gemm(a.get(), p.k, p.m, b.get() + turn * size, p.n, p.k, c.get(), p.n, e, pool);
  });
  line(p.what, 2.0 * static_cast<double>(p.m * p.n * p.k), 0, t, machine);
}

void bench_rows(int64_t m, int64_t n, int64_t k, bool k_major, const char* what,
                const Machine& machine, ThreadPool& pool) {
  const int64_t copies = std::max<int64_t>(1, (int64_t{32} << 20) / (n * k));
  const Floats a = floats(m * k);
  const Floats b = floats(n * k * copies);
  const Floats c = floats(m * n);
  int64_t turn = 0;
  const Times t = measure([&] {
    turn = (turn + 1) % copies;
    const float* weights = b.get() + turn * n * k;
    if (k_major) {
      gemm_rows_kn(a.get(), k, m, weights, n, n, k, nullptr, c.get(), n, {}, pool);
    } else {
      gemm_rows_nk(a.get(), k, m, weights, k, n, k, nullptr, c.get(), n, {}, pool);
    }
  });
  line(what, 2.0 * static_cast<double>(m * n * k), 4.0 * static_cast<double>(n * k), t, machine);
}

void bench_attention(int64_t heads, int64_t queries, int64_t keys, bool causal, const char* what,
                     const Machine& machine, ThreadPool& pool) {
  const int64_t d = 64;
  const Floats q = floats(heads * queries * d);
  const Floats k = floats(heads * keys * d);
  const Floats v = floats(heads * keys * d);
  const Floats out = floats(heads * queries * d);
  Attention call;
  call.heads = heads;
  call.queries = queries;
  call.keys = keys;
  call.head_dim = call.value_dim = d;
  call.scale = 0.125f;
  call.is_causal = causal;
  call.query = {q.get(), 0, d, heads * d};
  call.key = {k.get(), 0, d, heads * d};
  call.value = {v.get(), 0, d, heads * d};
  call.out = out.get();
  call.out_head = d;
  call.out_row = heads * d;
  const Floats scratch =
      floats(static_cast<int64_t>(attention_scratch_bytes(call, pool.num_threads()) / 4));
  const Times t = measure([&] { attention(call, scratch.get(), pool); });
  line(what, 4.0 * static_cast<double>(heads * queries * keys * d), 0, t, machine);
}

void bench_matmul(int64_t batch, int64_t m, int64_t n, int64_t k, const char* what,
                  const Machine& machine, ThreadPool& pool) {
  const Floats a = floats(batch * m * k);
  const Floats b = floats(batch * k * n);
  const Floats c = floats(batch * m * n);
  Matmul call;
  call.batch[1] = batch;
  call.m = m;
  call.n = n;
  call.k = k;
  call.a = {a.get(), {0, m * k}, k, 1};
  call.b = {b.get(), {0, k * n}, n, 1};
  call.c = c.get();
  call.c_batch_stride[1] = m * n;
  call.c_row_stride = n;
  const Floats scratch =
      floats(static_cast<int64_t>(matmul_scratch_bytes(call, pool.num_threads()) / 4));
  const Times t = measure([&] { matmul(call, scratch.get(), pool); });
  line(what, 2.0 * static_cast<double>(batch * m * n * k), 0, t, machine);
}

int run(int argc, char** argv) {
  if (const Status s = lower_isa_by_environment(); !s.ok()) {
    std::fprintf(stderr, "%s\n", s.message().c_str());
    return 2;
  }
  ThreadPool pool(argc > 1 ? std::max(1, std::atoi(argv[1])) : 1);
  const char* wanted = argc > 2 ? argv[2] : "";
  const auto picked = [&](const char* what) { return std::strstr(what, wanted) != nullptr; };
  const Machine m = machine(pool);
  std::printf("%s, %s, %d threads: peak %.1f GFLOP/s, %s %.1f GFLOP/s (%.0f %%), read %.1f GB/s\n",
              cpu_name().c_str(), std::string(name(active_isa())).c_str(), pool.num_threads(),
              m.peak * 1e-9, std::string(tile_table().name).c_str(), m.tile * 1e-9,
              100 * m.tile / m.peak, m.read * 1e-9);
  std::printf("%-34s %9s %9s  %7s\n", "m x n x k", "median us", "best us", "GFLOP/s");
  const Product products[] = {
      {128, 768, 768, "gemm 128x768x768"},
      {128, 3072, 768, "gemm 128x3072x768"},
      {128, 3072, 768, "gemm 128x3072x768 gelu", Activation::kGelu},
      {128, 768, 3072, "gemm 128x768x3072"},
      {64, 2304, 768, "gemm 64x2304x768"},
      {64, 3072, 768, "gemm 64x3072x768 gelu tanh", Activation::kGeluTanh},
      {64, 768, 3072, "gemm 64x768x3072"},
      {197, 768, 768, "gemm 197x768x768"},
      {197, 3072, 768, "gemm 197x3072x768"},
      {16, 384, 384, "gemm 16x384x384"},
      {12544, 16, 32, "gemm 12544x16x32 hot", Activation::kClamp, true},
      {12544, 96, 16, "gemm 12544x96x16 hot", Activation::kClamp, true},
      {3136, 24, 96, "gemm 3136x24x96 hot", Activation::kNone, true},
      {3136, 144, 24, "gemm 3136x144x24 hot", Activation::kClamp, true},
      {784, 32, 192, "gemm 784x32x192 hot", Activation::kNone, true},
      {196, 384, 64, "gemm 196x384x64 hot", Activation::kClamp, true},
      {196, 96, 576, "gemm 196x96x576 hot", Activation::kNone, true},
      {49, 960, 160, "gemm 49x960x160 hot", Activation::kClamp, true},
      {49, 1280, 320, "gemm 49x1280x320 hot", Activation::kClamp, true},
      {4225, 24, 72, "gemm 4225x24x72 hot", Activation::kNone, true},
      {4225, 40, 240, "gemm 4225x40x240 hot", Activation::kNone, true},
      {4225, 72, 24, "gemm 4225x72x24 hot", Activation::kClamp, true},
      {3136, 256, 64, "gemm 3136x256x64 hot", Activation::kClamp, true},
      {49, 512, 4608, "gemm 49x512x4608"},
  };
  for (const Product& p : products) {
    if (picked(p.what)) bench_gemm(p, m, pool);
  }
  if (picked("rows nk 1x30522x768")) {
    bench_rows(1, 30522, 768, false, "rows nk 1x30522x768", m, pool);
  }
  if (picked("rows nk 1x768x768")) bench_rows(1, 768, 768, false, "rows nk 1x768x768", m, pool);
  if (picked("rows nk 4x3072x768")) bench_rows(4, 3072, 768, false, "rows nk 4x3072x768", m, pool);
  if (picked("rows kn 1x2304x768")) bench_rows(1, 2304, 768, true, "rows kn 1x2304x768", m, pool);
  if (picked("rows kn 1x768x3072")) bench_rows(1, 768, 3072, true, "rows kn 1x768x3072", m, pool);
  if (picked("rows kn 4x3072x768")) bench_rows(4, 3072, 768, true, "rows kn 4x3072x768", m, pool);
  if (picked("attention 12x128")) {
    bench_attention(12, 128, 128, false, "attention 12x128x128x64", m, pool);
  }
  if (picked("attention 12x64")) {
    bench_attention(12, 64, 64, true, "attention 12x64x64x64 causal", m, pool);
  }
  if (picked("attention 12x197")) {
    bench_attention(12, 197, 197, false, "attention 12x197x197x64", m, pool);
  }
  if (picked("attention 12x1x")) {
    bench_attention(12, 1, 512, false, "attention 12x1x512x64", m, pool);
  }
  if (picked("matmul")) bench_matmul(12, 128, 128, 64, "matmul 12x128x128x64", m, pool);
  return 0;
}

}  // namespace
}  // namespace downhaul::kernels

int main(int argc, char** argv) { return downhaul::kernels::run(argc, argv); }
#endif  // HWY_ONCE

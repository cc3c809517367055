// Time of row, elementwise and copying kernels beside the speed of a plain copy of as many bytes:
//   rows_bench [threads]
// A kernel that only moves data should come near the copy; one that computes shows what that costs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/elementwise/copy.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/isa.h"
#include "kernels/rows/gather.h"
#include "kernels/rows/norm.h"
#include "kernels/rows/reduce.h"
#include "kernels/rows/softmax.h"

namespace downhaul::kernels {
namespace {

using Floats = std::vector<float>;

/// Median seconds of a call, over at least 20 ms.
double seconds(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  call();
  double total = 0;
  while (times.size() < 5 || (total < 0.02 && times.size() < 2000)) {
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    total += times.back();
  }
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

/// Numbers as activations have them.
Floats numbers(int64_t count) {
  Floats values(static_cast<size_t>(count));
  uint32_t state = 1;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) * 0x1p-22f - 2.0f;
  }
  return values;
}

Loops loops_of(std::vector<int64_t> sizes, std::vector<std::vector<int64_t>> operands) {
  std::vector<Extents> extents(operands.begin(), operands.end());
  return *broadcast_loops(sizes, extents);
}

class Bench {
 public:
  Bench(const char* title, int64_t rows, int64_t width, ThreadPool& pool)
      : rows_(rows),
        width_(width),
        count_(rows * width),
        pool_(pool),
        x_(numbers(count_)),
        y_(numbers(count_)),
        z_(static_cast<size_t>(count_)),
        row_(numbers(width)) {
    copy_ = seconds([&] { std::memcpy(z_.data(), x_.data(), bytes(1)); });
    const double all = seconds([&] {
      pool_.run(count_, count_ / pool_.num_threads(), [&](int64_t begin, int64_t end, int) {
        std::memcpy(z_.data() + begin, x_.data() + begin,
                    static_cast<size_t>(end - begin) * sizeof(float));
      });
    });
    copy_ = std::min(copy_, all);
    std::printf("\n%s: %lld x %lld floats; copy %.1f GB/s\n", title, static_cast<long long>(rows),
                static_cast<long long>(width), 2e-9 * static_cast<double>(bytes(1)) / copy_);
    std::printf("%-34s %10s %10s %8s\n", "", "ns/element", "GB/s", "of copy");
  }

  void run_all();

 private:
  size_t bytes(int64_t tensors) const {
    return static_cast<size_t>(tensors * count_) * sizeof(float);
  }
  /// `moved`: bytes read and written per element.
  void line(const std::string& name, double moved, const std::function<void()>& call) {
    const double time = seconds(call);
    const double rate = moved * static_cast<double>(count_) / time;
    const double copy_rate = 2 * static_cast<double>(bytes(1)) / copy_;
    std::printf("%-34s %10.3f %10.1f %7.0f%%\n", name.c_str(),
                1e9 * time / static_cast<double>(count_), 1e-9 * rate, 100 * rate / copy_rate);
  }
  void function(const char* name, UnaryOp op, UnaryParams params = {}) {
    const Loops loops = loops_of({count_}, {{count_}});
    line(name, 8,
         [&, loops] { unary(op, params, Element::kF32, loops, x_.data(), z_.data(), pool_); });
  }
  void arithmetic();
  void functions();
  void norms();
  void reductions();
  void copies();

  int64_t rows_;
  int64_t width_;
  int64_t count_;
  ThreadPool& pool_;
  Floats x_, y_, z_, row_;
  double copy_ = 0;
};

void Bench::arithmetic() {
  const Loops same = loops_of({rows_, width_}, {{rows_, width_}, {rows_, width_}});
  const Loops by_row = loops_of({rows_, width_}, {{rows_, width_}, {width_}});
  const Loops by_column = loops_of({rows_, width_}, {{rows_, width_}, {rows_, 1}});
  const Loops by_number = loops_of({rows_, width_}, {{rows_, width_}, {}});
  const auto two = [&](const char* name, BinaryOp op, const Loops& loops, double moved) {
    line(name, moved,
         [&, op] { binary(op, Element::kF32, loops, x_.data(), y_.data(), z_.data(), pool_); });
  };
  two("add", BinaryOp::kAdd, same, 12);
  two("add, a row to each", BinaryOp::kAdd, by_row, 8);
  two("multiply by a column", BinaryOp::kMul, by_column, 8);
  two("multiply by a number", BinaryOp::kMul, by_number, 8);
  two("maximum", BinaryOp::kMaximum, same, 12);
  two("divide", BinaryOp::kDiv, same, 12);
  two("compare to bool", BinaryOp::kGt, same, 9);
  Chain chain{.loops = loops_of({rows_, width_}, {{rows_, width_}, {width_}, {rows_, width_}}),
              .num_steps = 4};
  chain.steps[0] = {.kind = Step::Kind::kBinary, .binary = BinaryOp::kAdd, .operand = 1};
  chain.steps[1] = {.kind = Step::Kind::kUnary, .unary = UnaryOp::kHardswish};
  chain.steps[2] = {.kind = Step::Kind::kBinary, .binary = BinaryOp::kMul, .operand = 2};
  chain.steps[3] = {.kind = Step::Kind::kUnary, .unary = UnaryOp::kClamp, .a = 0, .b = 6};
  line("add row, hardswish, multiply, clamp", 12, [&] {
    const float* const operands[] = {x_.data(), row_.data(), y_.data()};
    run_chain(chain, operands, z_.data(), pool_);
  });
  std::vector<uint8_t> mask(static_cast<size_t>(count_), 1);
  const Loops three = loops_of({count_}, {{count_}, {}, {count_}});
  line("where, number or element", 9, [&] {
    where(4, three, reinterpret_cast<const bool*>(mask.data()), row_.data(), x_.data(), z_.data(),
          pool_);
  });
  const Loops one = loops_of({count_}, {{count_}});
  std::vector<uint16_t> half(static_cast<size_t>(count_));
  line("cast to f16", 6,
       [&] { cast(Element::kF32, Element::kF16, one, x_.data(), half.data(), pool_); });
  line("cast from f16", 6,
       [&] { cast(Element::kF16, Element::kF32, one, half.data(), z_.data(), pool_); });
}

void Bench::functions() {
  function("clamp", UnaryOp::kClamp, {0, 6});
  function("hardswish", UnaryOp::kHardswish);
  function("exp", UnaryOp::kExp);
  function("log", UnaryOp::kLog);
  function("tanh", UnaryOp::kTanh);
  function("erf", UnaryOp::kErf);
  function("sigmoid", UnaryOp::kSigmoid);
  function("silu", UnaryOp::kSilu);
  function("gelu", UnaryOp::kGelu);
  function("gelu, tanh form", UnaryOp::kGeluTanh);
  function("mish", UnaryOp::kMish);
  function("softplus", UnaryOp::kSoftplus, {1, 20});
  function("sin", UnaryOp::kSin);
  function("rsqrt", UnaryOp::kRsqrt);
}

void Bench::norms() {
  LayerNorm norm{.rows = rows_,
                 .width = width_,
                 .in = x_.data(),
                 .in_stride = width_,
                 .weight = row_.data(),
                 .bias = row_.data(),
                 .out = z_.data(),
                 .out_stride = width_};
  line("layer norm", 8, [&] { layer_norm(norm, pool_); });
  Floats kept(static_cast<size_t>(count_));
  norm.residual = y_.data();
  norm.residual_stride = width_;
  norm.sum = kept.data();
  norm.sum_stride = width_;
  line("layer norm, residual, sum kept", 16, [&] { layer_norm(norm, pool_); });
  for (const int64_t size : {int64_t{128}, width_}) {
    const Softmax call{.outer = count_ / size, .size = size, .in = x_.data(), .out = z_.data()};
    line("softmax of " + std::to_string(size), 8, [&] { softmax(call, pool_); });
  }
  const Softmax across{
      .outer = 1, .size = rows_, .inner = width_, .in = x_.data(), .out = z_.data()};
  line("softmax across", 8, [&] { softmax(across, pool_); });
  const Softmax logs{.outer = rows_, .size = width_, .in = x_.data(), .out = z_.data()};
  line("log softmax", 8, [&] { log_softmax(logs, pool_); });
}

void Bench::reductions() {
  const std::vector<int64_t> sizes = {rows_, width_};
  const auto over = [&](const char* name, ReduceOp op, std::vector<int64_t> dims) {
    const Reduce plan = *plan_reduce(op, Element::kF32, sizes, dims);
    line(name, 4, [&, plan] { reduce(plan, x_.data(), z_.data(), pool_); });
  };
  over("mean of rows", ReduceOp::kMean, {1});
  over("mean of columns", ReduceOp::kMean, {0});
  over("largest of rows", ReduceOp::kAmax, {1});
  over("variance of rows", ReduceOp::kVar, {1});
  std::vector<int64_t> places(static_cast<size_t>(rows_));
  line("argmax of rows", 4,
       [&] { argmax(Element::kF32, rows_, width_, 1, x_.data(), places.data(), pool_); });
}

void Bench::copies() {
  std::vector<int64_t> ids(static_cast<size_t>(rows_));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i * 7 % ids.size());
  line("gather rows", 8, [&] {
    gather_rows(1, rows_, width_ * 4, rows_, {ids.data()}, x_.data(), z_.data(), pool_);
  });
  const auto copy = [&](const char* name, const Copy& plan) {
    line(name, 8, [&, plan] { run_copy(plan, x_.data(), z_.data(), pool_); });
  };
  const std::vector<int64_t> sizes = {rows_, width_};
  const std::vector<int64_t> transposed = {1, rows_};
  const std::vector<int64_t> straight = {width_, 1};
  const bool reversed[] = {false, true};
  copy("copy, contiguous", *plan_copy(sizes, straight, straight, 0, 0, 4));
  copy("copy, transposed", *plan_copy(sizes, straight, transposed, 0, 0, 4));
  copy("flip rows", *plan_flip(sizes, reversed, 4));
  const std::vector<int64_t> blocks = {rows_, width_ / 64, 64};
  const std::vector<int64_t> heads = {64, rows_ * 64, 1};
  const std::vector<int64_t> from = {width_, 64, 1};
  copy("copy to [heads][rows][64]", *plan_copy(blocks, from, heads, 0, 0, 4));
}

void Bench::run_all() {
  arithmetic();
  functions();
  norms();
  reductions();
  copies();
}

}  // namespace
}  // namespace downhaul::kernels

int main(int argc, char** argv) {
  using namespace downhaul;
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : 1);
  std::printf("%s, %s, threads: %d\n", cpu_name().c_str(), std::string(name(active_isa())).c_str(),
              pool.num_threads());
  kernels::Bench("second-level cache", 64, 768, pool).run_all();
  kernels::Bench("memory", 16384, 768, pool).run_all();
  return 0;
}

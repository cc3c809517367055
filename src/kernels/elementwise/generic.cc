#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/status.h"
#include "kernels/elementwise/convert.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/scalar.h"
#include "kernels/elementwise/vectors.h"

// Elementwise operators of any type: blocks are widened to i64, f32 or f64, computed and narrowed.
// Models have few such elements (masks, ids, positions), so short code wins over fast code here,
// but for masks made of or applied to f32 and for conversions to and from half floats: vectors.h.
namespace downhaul::kernels {
namespace {

constexpr int64_t kBlock = 256;
/// Elements that are worth a thread.
constexpr int64_t kGrain = 16384;

/// A function over a block; `bad` is set by an integer division by zero.
template <typename W>
using UnaryBlock = void (*)(const W* x, const UnaryParams& params, int64_t n, W* y);
template <typename W>
using BinaryBlock = void (*)(const W* x, const W* y, int64_t n, W* z, bool& bad);

template <typename W, typename F>
UnaryBlock<W> each(F) {
  return [](const W* x, const UnaryParams&, int64_t n, W* y) {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<W>(F()(x[i]));
  };
}

/// A bound of clamp: for i64 the nearest one that fits.
template <typename W>
W bound(double v) {
  if constexpr (std::is_same_v<W, int64_t>) {
    return to_integer(v);
  } else {
    return static_cast<W>(v);
  }
}

template <typename W>
void clamp_block(const W* x, const UnaryParams& params, int64_t n, W* y) {
  const W low = bound<W>(params.a);
  const W high = bound<W>(params.b);
  for (int64_t i = 0; i < n; ++i) {
    const W v = x[i] < low ? low : x[i];
    y[i] = high < v ? high : v;
  }
}

/// Functions that every type has.
template <typename W>
UnaryBlock<W> common_function(UnaryOp op) {
  switch (op) {
    case UnaryOp::kAbs:
      return each<W>([](W x) {
        if constexpr (std::is_integral_v<W>) {
          return x < 0 ? scalar::wrapping(W(0), x, [](auto a, auto b) { return a - b; }) : x;
        } else {
          return std::abs(x);
        }
      });
    case UnaryOp::kNeg:
      return each<W>([](W x) {
        if constexpr (std::is_integral_v<W>) {
          return scalar::wrapping(W(0), x, [](auto a, auto b) { return a - b; });
        } else {
          return -x;
        }
      });
    case UnaryOp::kSign:
      return each<W>([](W x) { return (W(0) < x) - (x < W(0)); });
    case UnaryOp::kLogicalNot:
      return each<W>([](W x) { return x == W(0); });
    case UnaryOp::kClamp:
      return clamp_block<W>;
    default:
      return nullptr;
  }
}

UnaryBlock<int64_t> integer_function(UnaryOp op) {
  switch (op) {
    case UnaryOp::kCeil:
    case UnaryOp::kFloor:
    case UnaryOp::kRound:
    case UnaryOp::kTrunc:
      return each<int64_t>([](int64_t x) { return x; });
    case UnaryOp::kIsInf:
    case UnaryOp::kIsNan:
      return each<int64_t>([](int64_t) { return 0; });
    case UnaryOp::kBitwiseNot:
      return each<int64_t>([](int64_t x) { return ~x; });
    default:
      return common_function<int64_t>(op);
  }
}

/// f64, and the tests of f32, which are exact in it.
UnaryBlock<double> double_function(UnaryOp op) {
  using D = double;
  switch (op) {
    case UnaryOp::kAtan:
      return each<D>([](D x) { return std::atan(x); });
    case UnaryOp::kCeil:
      return each<D>([](D x) { return std::ceil(x); });
    case UnaryOp::kCos:
      return each<D>([](D x) { return std::cos(x); });
    case UnaryOp::kElu:
      return [](const D* x, const UnaryParams& p, int64_t n, D* y) {
        for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : p.a * std::expm1(x[i]);
      };
    case UnaryOp::kErf:
      return each<D>([](D x) { return std::erf(x); });
    case UnaryOp::kExp:
      return each<D>([](D x) { return std::exp(x); });
    case UnaryOp::kExpm1:
      return each<D>([](D x) { return std::expm1(x); });
    case UnaryOp::kFloor:
      return each<D>([](D x) { return std::floor(x); });
    case UnaryOp::kGelu:
      return each<D>([](D x) { return 0.5 * x * std::erfc(x * -0.70710678118654752440); });
    case UnaryOp::kGeluTanh:
      return each<D>([](D x) {
        const D inner = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
        return 0.5 * x * (1 + std::tanh(inner));
      });
    case UnaryOp::kHardsigmoid:
      return each<D>([](D x) {
        const D y = x + 3 < 0 ? 0 : x + 3;
        return (y > 6 ? 6 : y) / 6;
      });
    case UnaryOp::kHardswish:
      return each<D>([](D x) {
        const D y = x + 3 < 0 ? 0 : x + 3;
        return x * (y > 6 ? 6 : y) / 6;
      });
    case UnaryOp::kIsInf:
      return each<D>([](D x) { return std::isinf(x); });
    case UnaryOp::kIsNan:
      return each<D>([](D x) { return std::isnan(x); });
    case UnaryOp::kLeakyRelu:
      return [](const D* x, const UnaryParams& p, int64_t n, D* y) {
        for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : p.a * x[i];
      };
    case UnaryOp::kLog:
      return each<D>([](D x) { return std::log(x); });
    case UnaryOp::kLog1p:
      return each<D>([](D x) { return std::log1p(x); });
    case UnaryOp::kMish:
      return each<D>([](D x) { return x * std::tanh(std::log1p(std::exp(x))); });
    case UnaryOp::kReciprocal:
      return each<D>([](D x) { return 1 / x; });
    case UnaryOp::kRound:
      return each<D>([](D x) { return std::nearbyint(x); });
    case UnaryOp::kRsqrt:
      return each<D>([](D x) { return 1 / std::sqrt(x); });
    case UnaryOp::kSigmoid:
      return each<D>([](D x) { return 1 / (1 + std::exp(-x)); });
    case UnaryOp::kSilu:
      return each<D>([](D x) { return x / (1 + std::exp(-x)); });
    case UnaryOp::kSin:
      return each<D>([](D x) { return std::sin(x); });
    case UnaryOp::kSoftplus:
      return [](const D* x, const UnaryParams& p, int64_t n, D* y) {
        for (int64_t i = 0; i < n; ++i) {
          const D scaled = x[i] * p.a;
          y[i] = scaled > p.b ? x[i] : std::log1p(std::exp(scaled)) / p.a;
        }
      };
    case UnaryOp::kSqrt:
      return each<D>([](D x) { return std::sqrt(x); });
    case UnaryOp::kTanh:
      return each<D>([](D x) { return std::tanh(x); });
    case UnaryOp::kTrunc:
      return each<D>([](D x) { return std::trunc(x); });
    default:
      return common_function<D>(op);
  }
}

template <typename W, typename F>
BinaryBlock<W> each_two(F) {
  return [](const W* x, const W* y, int64_t n, W* z, bool&) {
    for (int64_t i = 0; i < n; ++i) z[i] = static_cast<W>(F()(x[i], y[i]));
  };
}

/// Division of integers: 0 where it is not defined, and said so.
template <typename F>
BinaryBlock<int64_t> each_quotient(F) {
  return [](const int64_t* x, const int64_t* y, int64_t n, int64_t* z, bool& bad) {
    for (int64_t i = 0; i < n; ++i) {
      bad = bad || y[i] == 0;
      z[i] = y[i] == 0 ? 0 : F()(x[i], y[i]);
    }
  };
}

template <typename W>
BinaryBlock<W> common_function(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return each_two<W>(
          [](W a, W b) { return scalar::wrapping(a, b, [](auto x, auto y) { return x + y; }); });
    case BinaryOp::kSub:
      return each_two<W>(
          [](W a, W b) { return scalar::wrapping(a, b, [](auto x, auto y) { return x - y; }); });
    case BinaryOp::kMul:
      return each_two<W>(
          [](W a, W b) { return scalar::wrapping(a, b, [](auto x, auto y) { return x * y; }); });
    case BinaryOp::kMaximum:
      return each_two<W>([](W a, W b) { return scalar::larger(a, b); });
    case BinaryOp::kMinimum:
      return each_two<W>([](W a, W b) { return scalar::smaller(a, b); });
    case BinaryOp::kPow:
      return each_two<W>([](W a, W b) { return scalar::power(a, b); });
    case BinaryOp::kEq:
      return each_two<W>([](W a, W b) { return a == b; });
    case BinaryOp::kNe:
      return each_two<W>([](W a, W b) { return a != b; });
    case BinaryOp::kLt:
      return each_two<W>([](W a, W b) { return a < b; });
    case BinaryOp::kLe:
      return each_two<W>([](W a, W b) { return a <= b; });
    case BinaryOp::kGt:
      return each_two<W>([](W a, W b) { return a > b; });
    case BinaryOp::kGe:
      return each_two<W>([](W a, W b) { return a >= b; });
    case BinaryOp::kLogicalAnd:
      return each_two<W>([](W a, W b) { return (a != W(0)) & (b != W(0)); });
    case BinaryOp::kLogicalOr:
      return each_two<W>([](W a, W b) { return (a != W(0)) | (b != W(0)); });
    case BinaryOp::kLogicalXor:
      return each_two<W>([](W a, W b) { return (a != W(0)) != (b != W(0)); });
    default:
      return nullptr;
  }
}

BinaryBlock<int64_t> integer_function(BinaryOp op) {
  using I = int64_t;
  switch (op) {
    case BinaryOp::kFloorDivide:
      return each_quotient([](I a, I b) { return scalar::floor_divide(a, b); });
    case BinaryOp::kFmod:
      return each_quotient([](I a, I b) { return scalar::fmod(a, b); });
    case BinaryOp::kRemainder:
      return each_quotient([](I a, I b) { return scalar::remainder(a, b); });
    case BinaryOp::kBitwiseAnd:
      return each_two<I>([](I a, I b) { return a & b; });
    case BinaryOp::kBitwiseOr:
      return each_two<I>([](I a, I b) { return a | b; });
    case BinaryOp::kBitwiseXor:
      return each_two<I>([](I a, I b) { return a ^ b; });
    default:
      return common_function<I>(op);
  }
}

template <typename W>
BinaryBlock<W> float_function(BinaryOp op) {
  switch (op) {
    case BinaryOp::kDiv:
      return each_two<W>([](W a, W b) { return a / b; });
    case BinaryOp::kFloorDivide:
      return each_two<W>([](W a, W b) { return scalar::floor_divide(a, b); });
    case BinaryOp::kFmod:
      return each_two<W>([](W a, W b) { return scalar::fmod(a, b); });
    case BinaryOp::kRemainder:
      return each_two<W>([](W a, W b) { return scalar::remainder(a, b); });
    case BinaryOp::kPrelu:
      return each_two<W>([](W a, W b) { return a > W(0) ? a : b * a; });
    default:
      return common_function<W>(op);
  }
}

/// Calls body(cursor, n) for runs of at most kBlock elements that cover all, in parallel.
template <typename Body>
void for_each_run(const Loops& loops, ThreadPool& pool, Body body) {
  pool.run(loops.count, kGrain, [&](int64_t begin, int64_t end, int) {
    LoopCursor cursor(loops, begin);
    for (int64_t at = begin; at < end;) {
      // In pieces that fit the buffers of those who need some.
      const int64_t n = std::min({kBlock, end - at, cursor.left()});
      body(cursor, n);
      cursor.advance(n);
      at += n;
    }
  });
}

template <typename W>
void run_unary(UnaryBlock<W> function, const UnaryParams& params, Element element, Element result,
               const Loops& loops, const void* x, void* y, ThreadPool& pool) {
  DH_CHECK(function != nullptr);
  const LoadBlock<W> load = load_block<W>(element);
  const StoreBlock<W> store = store_block<W>(result);
  for_each_run(loops, pool, [&](const LoopCursor& at, int64_t n) {
    W values[kBlock];
    load(x, at.offset(0), loops.inner_stride(0), n, values);
    function(values, params, n, values);
    store(values, n, y, at.result_offset(), loops.inner_result_stride());
  });
}

template <typename W>
bool run_binary(BinaryBlock<W> function, Element element, Element result, const Loops& loops,
                const void* x, const void* y, void* z, ThreadPool& pool) {
  DH_CHECK(function != nullptr);
  const LoadBlock<W> load = load_block<W>(element);
  const StoreBlock<W> store = store_block<W>(result);
  std::atomic<bool> any_bad{false};
  for_each_run(loops, pool, [&](const LoopCursor& at, int64_t n) {
    W a[kBlock];
    W b[kBlock];
    bool bad = false;
    load(x, at.offset(0), loops.inner_stride(0), n, a);
    load(y, at.offset(1), loops.inner_stride(1), n, b);
    function(a, b, n, a, bad);
    if (bad) any_bad.store(true, std::memory_order_relaxed);
    store(a, n, z, at.result_offset(), loops.inner_result_stride());
  });
  return !any_bad.load(std::memory_order_relaxed);
}

/// Sums and products of bool are or and and; its complement is logical.
BinaryOp for_bool(BinaryOp op) {
  if (op == BinaryOp::kAdd) return BinaryOp::kBitwiseOr;
  if (op == BinaryOp::kMul) return BinaryOp::kBitwiseAnd;
  return op;
}

template <typename T>
void where_of(const Loops& loops, const bool* condition, const void* x, const void* y, void* result,
              ThreadPool& pool) {
  const T* a = static_cast<const T*>(x);
  const T* b = static_cast<const T*>(y);
  T* to = static_cast<T*>(result);
  for_each_run(loops, pool, [&](const LoopCursor& at, int64_t n) {
    const bool* c = condition + at.offset(0);
    const T* p = a + at.offset(1);
    const T* q = b + at.offset(2);
    T* z = to + at.result_offset();
    const int64_t step_c = loops.inner_stride(0);
    const int64_t step_p = loops.inner_stride(1);
    const int64_t step_q = loops.inner_stride(2);
    const int64_t step_z = loops.inner_result_stride();
    if (step_c == 1 && step_p == 1 && step_q == 1 && step_z == 1) {
      for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? p[i] : q[i];
    } else if (step_c == 1 && step_p == 0 && step_q == 1 && step_z == 1) {
      const T v = *p;  // masked fill
      for (int64_t i = 0; i < n; ++i) z[i] = c[i] ? v : q[i];
    } else {
      for (int64_t i = 0; i < n; ++i) {
        z[i * step_z] = c[i * step_c] ? p[i * step_p] : q[i * step_q];
      }
    }
  });
}

/// Whether a vector loop can walk an operand, and whether that is one number.
bool is_run(int64_t stride) { return stride == 0 || stride == 1; }

/// A comparison or logic of f32.
void compare_f32(BinaryOp op, const Loops& loops, const void* x, const void* y, void* result,
                 ThreadPool& pool) {
  const auto* a = static_cast<const float*>(x);
  const auto* b = static_cast<const float*>(y);
  auto* to = static_cast<bool*>(result);
  const int64_t step_a = loops.inner_stride(0);
  const int64_t step_b = loops.inner_stride(1);
  const auto compare = width_kernels().compare;
  for_each_run(loops, pool, [&](const LoopCursor& at, int64_t n) {
    compare(op, a + at.offset(0), step_a == 0, b + at.offset(1), step_b == 0,
            static_cast<size_t>(n), to + at.result_offset());
  });
}

void select_32(const Loops& loops, const bool* condition, const void* x, const void* y,
               void* result, ThreadPool& pool) {
  const auto* a = static_cast<const uint32_t*>(x);
  const auto* b = static_cast<const uint32_t*>(y);
  auto* to = static_cast<uint32_t*>(result);
  const int64_t step_a = loops.inner_stride(1);
  const int64_t step_b = loops.inner_stride(2);
  const auto select = width_kernels().select;
  for_each_run(loops, pool, [&](const LoopCursor& at, int64_t n) {
    select(condition + at.offset(0), a + at.offset(1), step_a == 0, b + at.offset(2), step_b == 0,
           static_cast<size_t>(n), to + at.result_offset());
  });
}

/// Conversions between f32 and half floats of contiguous runs; false for others.
bool cast_half(Element from, Element to, const Loops& loops, const void* x, void* result,
               ThreadPool& pool) {
  if (loops.inner_stride(0) != 1 || loops.inner_result_stride() != 1) return false;
  const WidthKernels kernels = width_kernels();
  if (from == Element::kF32 && (to == Element::kF16 || to == Element::kBF16)) {
    const auto convert_run = to == Element::kF16 ? kernels.to_half : kernels.to_bfloat16;
    for_each_run(loops, pool, [&](const LoopCursor& at, int64_t n) {
      convert_run(static_cast<const float*>(x) + at.offset(0), static_cast<size_t>(n),
                  static_cast<uint16_t*>(result) + at.result_offset());
    });
    return true;
  }
  if (to == Element::kF32 && (from == Element::kF16 || from == Element::kBF16)) {
    const auto convert_run = from == Element::kF16 ? kernels.from_half : kernels.from_bfloat16;
    for_each_run(loops, pool, [&](const LoopCursor& at, int64_t n) {
      convert_run(static_cast<const uint16_t*>(x) + at.offset(0), static_cast<size_t>(n),
                  static_cast<float*>(result) + at.result_offset());
    });
    return true;
  }
  return false;
}

/// A chain of one step on f32.
void run_step(const Step& step, const Loops& loops, const void* x, const void* y, void* result,
              ThreadPool& pool) {
  Chain chain{.loops = loops, .num_steps = 1};
  chain.steps[0] = step;
  const float* const operands[] = {static_cast<const float*>(x), static_cast<const float*>(y)};
  run_chain(chain, operands, static_cast<float*>(result), pool);
}

}  // namespace

bool is_supported(UnaryOp op, Element element) {
  if (element == Element::kF16 || element == Element::kBF16) return false;
  if (op == UnaryOp::kRoundToHalf) return element == Element::kF32;
  if (is_float(element)) return op != UnaryOp::kBitwiseNot;
  if (element == Element::kBool && !gives_bool(op) && op != UnaryOp::kBitwiseNot) return false;
  return integer_function(op) != nullptr;
}

bool is_supported(BinaryOp op, Element element) {
  if (element == Element::kF16 || element == Element::kBF16) return false;
  if (is_float(element)) return float_function<double>(op) != nullptr;
  if (element == Element::kBool) {
    return integer_function(for_bool(op)) != nullptr &&
           (gives_bool(op) || for_bool(op) >= BinaryOp::kBitwiseAnd || op == BinaryOp::kMaximum ||
            op == BinaryOp::kMinimum);
  }
  return integer_function(op) != nullptr;
}

void unary(UnaryOp op, const UnaryParams& params, Element element, const Loops& loops,
           const void* x, void* result, ThreadPool& pool) {
  const Element to = gives_bool(op) ? Element::kBool : element;
  if (element == Element::kF32 && !gives_bool(op)) {
    Step step{.kind = Step::Kind::kUnary, .unary = op};
    step.a = static_cast<float>(params.a);
    step.b = static_cast<float>(params.b);
    run_step(step, loops, x, nullptr, result, pool);
  } else if (is_float(element)) {
    run_unary(double_function(op), params, element, to, loops, x, result, pool);
  } else {
    if (element == Element::kBool && op == UnaryOp::kBitwiseNot) op = UnaryOp::kLogicalNot;
    run_unary(integer_function(op), params, element, to, loops, x, result, pool);
  }
}

bool binary(BinaryOp op, Element element, const Loops& loops, const void* x, const void* y,
            void* result, ThreadPool& pool) {
  const Element to = gives_bool(op) ? Element::kBool : element;
  if (element == Element::kF32) {
    if (gives_bool(op)) {
      if (is_run(loops.inner_stride(0)) && is_run(loops.inner_stride(1)) &&
          loops.inner_result_stride() == 1) {
        compare_f32(op, loops, x, y, result, pool);
        return true;
      }
      return run_binary(float_function<float>(op), element, to, loops, x, y, result, pool);
    }
    Step step{.kind = Step::Kind::kBinary, .binary = op, .operand = 1};
    run_step(step, loops, x, y, result, pool);
    return true;
  }
  if (is_float(element)) {
    return run_binary(float_function<double>(op), element, to, loops, x, y, result, pool);
  }
  const BinaryOp own = element == Element::kBool ? for_bool(op) : op;
  return run_binary(integer_function(own), element, to, loops, x, y, result, pool);
}

void where(int64_t element_size, const Loops& loops, const bool* condition, const void* x,
           const void* y, void* result, ThreadPool& pool) {
  switch (element_size) {
    case 1:
      return where_of<uint8_t>(loops, condition, x, y, result, pool);
    case 2:
      return where_of<uint16_t>(loops, condition, x, y, result, pool);
    case 4:
      if (loops.inner_stride(0) == 1 && is_run(loops.inner_stride(1)) &&
          is_run(loops.inner_stride(2)) && loops.inner_result_stride() == 1) {
        return select_32(loops, condition, x, y, result, pool);
      }
      return where_of<uint32_t>(loops, condition, x, y, result, pool);
    case 8:
      return where_of<uint64_t>(loops, condition, x, y, result, pool);
    default:
      DH_CHECK(false);
  }
}

void cast(Element from, Element to, const Loops& loops, const void* x, void* result,
          ThreadPool& pool) {
  if (cast_half(from, to, loops, x, result, pool)) return;
  with_type(from, [&]<typename From>() {
    with_type(to, [&]<typename To>() {
      for_each_run(loops, pool, [&](const LoopCursor& at, int64_t n) {
        const From* p = static_cast<const From*>(x) + at.offset(0);
        To* q = static_cast<To*>(result) + at.result_offset();
        const int64_t step = loops.inner_stride(0);
        const int64_t to_step = loops.inner_result_stride();
        if (step == 1 && to_step == 1) {
          for (int64_t i = 0; i < n; ++i) q[i] = convert<To>(p[i]);
        } else {
          for (int64_t i = 0; i < n; ++i) q[i * to_step] = convert<To>(p[i * step]);
        }
      });
    });
  });
}

void arange(Element element, int64_t count, int64_t start, int64_t step, void* result) {
  with_type(element, [&]<typename T>() {
    T* to = static_cast<T*>(result);
    // Unsigned: the product may leave i64 where the sum does not.
    auto value = static_cast<uint64_t>(start);
    for (int64_t i = 0; i < count; ++i, value += static_cast<uint64_t>(step)) {
      to[i] = convert<T>(static_cast<int64_t>(value));
    }
  });
}

}  // namespace downhaul::kernels

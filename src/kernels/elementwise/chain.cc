#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/status.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/scalar.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/chain.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of what follows.
#include "hwy/highway.h"
#include "kernels/math-inl.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

/// y[i] = f(x[i]).
template <class F>
HWY_INLINE void map_one(const float* x, size_t n, float* y, F f) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
  if (i < n) store_partial(f(d, load_partial(d, x + i, n - i)), d, y + i, n - i);
}

/// y[i] = f(a[i], b[i]), or with one number for a or b.
template <class F>
HWY_INLINE void map_two(const float* a, bool one_a, const float* b, bool one_b, size_t n, float* y,
                        F f) {
  const hn::ScalableTag<float> d;
  if (one_b) {
    const auto number = hn::Set(d, *b);
    map_one(a, n, y, [=](auto tag, auto v) HWY_ATTR { return f(tag, v, number); });
    return;
  }
  if (one_a) {
    const auto number = hn::Set(d, *a);
    map_one(b, n, y, [=](auto tag, auto v) HWY_ATTR { return f(tag, number, v); });
    return;
  }
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
  }
  if (i < n) {
    const auto last = f(d, load_partial(d, a + i, n - i), load_partial(d, b + i, n - i));
    store_partial(last, d, y + i, n - i);
  }
}

#define DH_UNARY(op, expression) \
  case UnaryOp::op:              \
    return map_one(x, n, y, [=](auto d, auto v) HWY_ATTR { return expression; })

void unary_block(UnaryOp op, float a, float b, const float* x, size_t n, float* y) {
  switch (op) {
    DH_UNARY(kAbs, (void(d), hn::Abs(v)));
    DH_UNARY(kAtan, vec_atan(d, v));
    // On the x86-64 baseline Highway loses the sign of a result that is zero.
    DH_UNARY(kCeil, (void(d), hn::CopySign(hn::Ceil(v), v)));
    DH_UNARY(kClamp, vec_clamp(d, v, a, b));
    DH_UNARY(kCos, vec_cos(d, v));
    DH_UNARY(kElu,
             hn::IfThenElse(hn::Gt(v, hn::Zero(d)), v, hn::Mul(hn::Set(d, a), vec_expm1(d, v))));
    DH_UNARY(kErf, vec_erf(d, v));
    DH_UNARY(kExp, vec_exp(d, v));
    DH_UNARY(kExpm1, vec_expm1(d, v));
    DH_UNARY(kFloor, (void(d), hn::CopySign(hn::Floor(v), v)));
    DH_UNARY(kGelu, vec_gelu(d, v));
    DH_UNARY(kGeluTanh, vec_gelu_tanh(d, v));
    DH_UNARY(kHardsigmoid, vec_hardsigmoid(d, v));
    DH_UNARY(kHardswish, vec_hardswish(d, v));
    DH_UNARY(kLeakyRelu, hn::IfThenElse(hn::Gt(v, hn::Zero(d)), v, hn::Mul(hn::Set(d, a), v)));
    DH_UNARY(kLog, vec_log(d, v));
    DH_UNARY(kLog1p, vec_log1p(d, v));
    DH_UNARY(kMish, vec_mish(d, v));
    DH_UNARY(kNeg, (void(d), hn::Neg(v)));
    DH_UNARY(kReciprocal, hn::Div(hn::Set(d, 1.0f), v));
    DH_UNARY(kRound, (void(d), hn::CopySign(hn::Round(v), v)));
    DH_UNARY(kRoundToHalf, vec_round_to_half(d, v));
    DH_UNARY(kRsqrt, vec_rsqrt(d, v));
    DH_UNARY(kSigmoid, vec_sigmoid(d, v));
    DH_UNARY(kSign, hn::IfThenElseZero(hn::Gt(hn::Abs(v), hn::Zero(d)),
                                       hn::CopySign(hn::Set(d, 1.0f), v)));
    DH_UNARY(kSilu, vec_silu(d, v));
    DH_UNARY(kSin, vec_sin(d, v));
    DH_UNARY(kSoftplus, vec_softplus(d, v, a, b));
    DH_UNARY(kSqrt, (void(d), hn::Sqrt(v)));
    DH_UNARY(kTanh, vec_tanh(d, v));
    DH_UNARY(kTrunc, (void(d), hn::CopySign(hn::Trunc(v), v)));
    default:
      DH_CHECK(false);
  }
}
#undef DH_UNARY

/// Powers with a number as the exponent that models use: exact, or as exact as std::pow.
bool power_block(const float* x, float exponent, size_t n, float* y) {
  if (exponent == 2.0f) {
    map_one(x, n, y, [](auto, auto v) HWY_ATTR { return hn::Mul(v, v); });
  } else if (exponent == 1.0f) {
    map_one(x, n, y, [](auto, auto v) HWY_ATTR { return v; });
  } else if (exponent == -1.0f) {
    map_one(x, n, y, [](auto d, auto v) HWY_ATTR { return hn::Div(hn::Set(d, 1.0f), v); });
  } else if (exponent == 0.5f) {
    // Unlike the root: +0 for -0, and infinity for -infinity.
    map_one(x, n, y, [](auto d, auto v) HWY_ATTR {
      const auto low = hn::Set(d, -std::numeric_limits<float>::infinity());
      const auto root = hn::Sqrt(hn::Add(v, hn::Zero(d)));
      return hn::IfThenElse(hn::Eq(v, low), hn::Neg(low), root);
    });
  } else {
    return false;
  }
  return true;
}

/// Functions of the C library, element by element.
template <class F>
void map_plain(const float* a, bool one_a, const float* b, bool one_b, size_t n, float* y, F f) {
  for (size_t i = 0; i < n; ++i) y[i] = f(a[one_a ? 0 : i], b[one_b ? 0 : i]);
}

#define DH_BINARY(op, expression)            \
  case BinaryOp::op:                         \
    return map_two(a, one_a, b, one_b, n, y, \
                   [=](auto d, auto v, auto w) HWY_ATTR { return expression; })

void binary_block(BinaryOp op, const float* a, bool one_a, const float* b, bool one_b, size_t n,
                  float* y) {
  switch (op) {
    DH_BINARY(kAdd, (void(d), hn::Add(v, w)));
    DH_BINARY(kSub, (void(d), hn::Sub(v, w)));
    DH_BINARY(kMul, (void(d), hn::Mul(v, w)));
    DH_BINARY(kDiv, (void(d), hn::Div(v, w)));
    DH_BINARY(kMaximum, vec_maximum(d, v, w));
    DH_BINARY(kMinimum, vec_minimum(d, v, w));
    DH_BINARY(kPrelu, hn::IfThenElse(hn::Gt(v, hn::Zero(d)), v, hn::Mul(w, v)));
    case BinaryOp::kPow:
      if (one_b && !one_a && power_block(a, *b, n, y)) return;
      return map_plain(a, one_a, b, one_b, n, y, [](float v, float w) { return std::pow(v, w); });
    case BinaryOp::kFloorDivide:
      return map_plain(a, one_a, b, one_b, n, y, scalar::floor_divide<float>);
    case BinaryOp::kFmod:
      return map_plain(a, one_a, b, one_b, n, y, scalar::fmod<float>);
    case BinaryOp::kRemainder:
      return map_plain(a, one_a, b, one_b, n, y, scalar::remainder<float>);
    default:
      DH_CHECK(false);
  }
}
#undef DH_BINARY

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
namespace {

HWY_EXPORT(unary_block);
HWY_EXPORT(binary_block);

constexpr int64_t kBlock = 1024;  ///< elements of a block: 4 KiB
/// Rows shorter than this share a block; longer ones are cut into blocks.
constexpr int64_t kLongRow = 256;

/// How the elements are cut. Blocks lie within one row, or are several whole rows.
struct Blocks {
  int64_t rows = 0;       ///< of the loops
  int64_t per_row = 1;    ///< blocks that make a row
  int64_t row_group = 1;  ///< rows that make a block
  int64_t width = 0;      ///< elements of a block within a row

  explicit Blocks(const Loops& loops) {
    const int64_t inner = loops.inner_size();
    rows = loops.count / std::max<int64_t>(1, inner);
    if (inner >= kLongRow) {
      const int64_t cuts = (inner + kBlock - 1) / kBlock;
      width = std::min(kBlock, ((inner + cuts - 1) / cuts + 63) / 64 * 64);
      per_row = (inner + width - 1) / width;
    } else {
      row_group = kBlock / std::max<int64_t>(1, inner);
      width = inner;
    }
  }
  int64_t count() const {
    return per_row > 1 ? rows * per_row : (rows + row_group - 1) / row_group;
  }
};

/// Elements [offset …) of an operand for one block.
struct Source {
  const float* data = nullptr;
  bool is_number = false;
};

/// Runs the chain over some blocks.
class ChainRunner {
 public:
  ChainRunner(const Chain& chain, const float* const* operands, float* result)
      : chain_(chain),
        loops_(chain.loops),
        blocks_(chain.loops),
        operands_(operands),
        result_(result),
        unary_(&HWY_DYNAMIC_DISPATCH(unary_block)),
        binary_(&HWY_DYNAMIC_DISPATCH(binary_block)) {
    for (int o = 0; o < loops_.num_operands; ++o) {
      contiguous_[static_cast<size_t>(o)] =
          is_contiguous(loops_, loops_.strides[static_cast<size_t>(o)]);
    }
    result_contiguous_ = is_contiguous(loops_, loops_.result_strides);
  }

  int64_t num_blocks() const { return blocks_.count(); }

  void run(int64_t begin, int64_t end) const {
    const int64_t inner = loops_.inner_size();
    LoopCursor cursor(loops_, first_element(begin));
    for (int64_t block = begin; block < end; ++block) {
      int64_t n = 0;
      if (blocks_.row_group > 1) {
        n = std::min(blocks_.row_group, blocks_.rows - block * blocks_.row_group) * inner;
      } else {
        n = std::min(blocks_.width, cursor.left());
      }
      run_block(cursor, first_element(block), n);
      skip(cursor, n);
    }
  }

 private:
  int64_t first_element(int64_t block) const {
    const int64_t inner = loops_.inner_size();
    if (blocks_.row_group > 1) return block * blocks_.row_group * inner;
    return block / blocks_.per_row * inner + block % blocks_.per_row * blocks_.width;
  }
  static void skip(LoopCursor& cursor, int64_t n) {
    while (n > 0) {
      const int64_t step = std::min(n, cursor.left());
      cursor.advance(step);
      n -= step;
    }
  }

  /// An operand's elements of the block, in place where they lie as the result does, else copied.
  Source source(int operand, const LoopCursor& at, int64_t first, int64_t n, float* buffer) const {
    const float* data = operands_[operand];
    if (contiguous_[static_cast<size_t>(operand)]) return {data + first, false};
    const int64_t stride = loops_.inner_stride(operand);
    if (n <= at.left()) {
      if (stride == 1) return {data + at.offset(operand), false};
      if (stride == 0) return {data + at.offset(operand), true};
    }
    LoopCursor cursor = at;
    for (int64_t done = 0; done < n;) {
      const int64_t run = std::min(n - done, cursor.left());
      const float* from = data + cursor.offset(operand);
      float* to = buffer + done;
      if (stride == 1) {
        std::memcpy(to, from, static_cast<size_t>(run) * sizeof(float));
      } else if (stride == 0) {
        std::fill_n(to, run, *from);
      } else {
        for (int64_t i = 0; i < run; ++i) to[i] = from[i * stride];
      }
      cursor.advance(run);
      done += run;
    }
    return {buffer, false};
  }

  void run_block(const LoopCursor& at, int64_t first, int64_t n) const {
    alignas(64) float value[kBlock];
    alignas(64) float other[kBlock];
    const bool direct = result_contiguous_ || (n <= at.left() && loops_.inner_result_stride() == 1);
    float* to = !direct ? value : result_ + (result_contiguous_ ? first : at.result_offset());
    Source v = source(0, at, first, n, value);
    const auto size = static_cast<size_t>(n);
    for (int s = 0; s < chain_.num_steps; ++s) {
      const Step& step = chain_.steps[static_cast<size_t>(s)];
      float* out = s == chain_.num_steps - 1 ? to : value;
      if (v.is_number && (step.kind == Step::Kind::kUnary || step.operand == Step::kNumber)) {
        // Functions of numbers alone: one element, until an operand comes.
        std::fill_n(value, n, *v.data);
        v = {value, false};
      }
      if (step.kind == Step::Kind::kUnary) {
        unary_(step.unary, step.a, step.b, v.data, size, out);
      } else {
        const Source y = step.operand == Step::kNumber ? Source{&step.a, true}
                                                       : source(step.operand, at, first, n, other);
        if (v.is_number && y.is_number) {
          std::fill_n(value, n, *v.data);
          v = {value, false};
        }
        if (step.kind == Step::Kind::kBinary) {
          binary_(step.binary, v.data, v.is_number, y.data, y.is_number, size, out);
        } else {
          binary_(step.binary, y.data, y.is_number, v.data, v.is_number, size, out);
        }
      }
      v = {out, false};
    }
    if (!direct) scatter(at, value, n);
  }

  void scatter(LoopCursor cursor, const float* from, int64_t n) const {
    const int64_t stride = loops_.inner_result_stride();
    while (n > 0) {
      const int64_t run = std::min(n, cursor.left());
      float* to = result_ + cursor.result_offset();
      for (int64_t i = 0; i < run; ++i) to[i * stride] = from[i];
      cursor.advance(run);
      from += run;
      n -= run;
    }
  }

  const Chain& chain_;
  const Loops& loops_;
  Blocks blocks_;
  const float* const* operands_;
  float* result_;
  decltype(&HWY_STATIC_DISPATCH(unary_block)) unary_;
  decltype(&HWY_STATIC_DISPATCH(binary_block)) binary_;
  std::array<bool, Loops::kMaxOperands> contiguous_{};
  bool result_contiguous_ = false;
};

/// About how long a step takes, in additions.
int64_t cost(const Step& step) {
  if (step.kind != Step::Kind::kUnary) {
    switch (step.binary) {
      case BinaryOp::kPow:
      case BinaryOp::kFloorDivide:
      case BinaryOp::kFmod:
      case BinaryOp::kRemainder:
        return 50;
      default:
        return 1;
    }
  }
  switch (step.unary) {
    case UnaryOp::kAbs:
    case UnaryOp::kCeil:
    case UnaryOp::kClamp:
    case UnaryOp::kFloor:
    case UnaryOp::kHardsigmoid:
    case UnaryOp::kHardswish:
    case UnaryOp::kLeakyRelu:
    case UnaryOp::kNeg:
    case UnaryOp::kRound:
    case UnaryOp::kRoundToHalf:
    case UnaryOp::kTrunc:
      return 1;
    default:
      return 6;
  }
}

/// Additions that are worth a thread.
constexpr int64_t kGrain = 32768;

}  // namespace

void run_chain(const Chain& chain, const float* const* operands, float* result, ThreadPool& pool) {
  if (chain.loops.count == 0) return;
  const ChainRunner runner(chain, operands, result);
  int64_t work = 1;
  for (int s = 0; s < chain.num_steps; ++s) work += cost(chain.steps[static_cast<size_t>(s)]);
  pool.run(runner.num_blocks(), std::max<int64_t>(1, kGrain / (work * kBlock)),
           [&](int64_t begin, int64_t end, int) { runner.run(begin, end); });
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE

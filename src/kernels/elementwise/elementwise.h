#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "base/thread_pool.h"
#include "kernels/elementwise/loops.h"

/// Elementwise operators, with the meaning of the IR's: NaN, signed zeros, wrap-around of integers
/// and rounding are theirs. Results depend on nothing but the element, so not on threads; for f32
/// not on the ISA either, but for the last places of transcendental functions where the x86-64
/// baseline has no fused multiply-add. Errors of those: kernels/math-inl.h.
///
/// Nothing here allocates or fails. The result may be the memory of an operand of the same type and
/// strides; otherwise they must not overlap. Buffers need no alignment beyond their elements'.
namespace downhaul::kernels {

/// Functions of one element; a and b are the parameters of those that have some.
enum class UnaryOp : uint8_t {
  kAbs,
  kAtan,
  kBitwiseNot,  ///< integers, bool
  kCeil,
  kClamp,  ///< min(max(x, a), b); b wins; NaN stays
  kCos,
  kElu,  ///< x > 0 ? x : a·(e^x - 1)
  kErf,
  kExp,
  kExpm1,
  kFloor,
  kGelu,
  kGeluTanh,
  kHardsigmoid,
  kHardswish,
  kIsInf,      ///< result bool
  kIsNan,      ///< result bool
  kLeakyRelu,  ///< x > 0 ? x : a·x
  kLog,
  kLog1p,
  kLogicalNot,  ///< result bool
  kMish,
  kNeg,
  kReciprocal,
  kRound,        ///< halves to the even neighbour
  kRoundToHalf,  ///< to f16 and back, as cast does both; f32 only
  kRsqrt,
  kSigmoid,
  kSign,  ///< NaN gives 0
  kSilu,
  kSin,
  kSoftplus,  ///< log(1 + e^(a x)) / a, x where a x > b
  kSqrt,
  kTanh,
  kTrunc,
};

/// Functions of two elements.
enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,  ///< NaN when either is
  kMinimum,
  kPow,
  kFloorDivide,
  kFmod,
  kRemainder,
  kPrelu,       ///< x > 0 ? x : y·x
  kBitwiseAnd,  ///< integers, bool
  kBitwiseOr,
  kBitwiseXor,
  // Result bool from here on.
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,
};

constexpr bool gives_bool(UnaryOp op) {
  return op == UnaryOp::kIsInf || op == UnaryOp::kIsNan || op == UnaryOp::kLogicalNot;
}
constexpr bool gives_bool(BinaryOp op) { return op >= BinaryOp::kEq; }

/// Whether the function exists for the type. None does for f16 and bf16, which are cast to f32 and
/// back; transcendental functions, division and the like exist for f32 and f64, bits for integers.
bool is_supported(UnaryOp op, Element element);
bool is_supported(BinaryOp op, Element element);

struct UnaryParams {
  double a = -std::numeric_limits<double>::infinity();
  double b = std::numeric_limits<double>::infinity();
};

/// result = op(x); loops of one operand.
void unary(UnaryOp op, const UnaryParams& params, Element element, const Loops& loops,
           const void* x, void* result, ThreadPool& pool);

/// result = op(x, y); loops of two operands. False when an integer was divided by zero, which gives
/// 0 there.
bool binary(BinaryOp op, Element element, const Loops& loops, const void* x, const void* y,
            void* result, ThreadPool& pool);

/// result = condition ? x : y for elements of any type; loops of three operands (condition, x, y).
void where(int64_t element_size, const Loops& loops, const bool* condition, const void* x,
           const void* y, void* result, ThreadPool& pool);

/// result = x converted: floats to integers truncate towards zero (out of range: the nearest bound
/// of i64 and then wrapped; NaN: 0), everything to bool is != 0, to f16 and bf16 rounds to nearest
/// even. Loops of one operand.
void cast(Element from, Element to, const Loops& loops, const void* x, void* result,
          ThreadPool& pool);

/// One step of a chain on f32: v becomes unary(v), binary(v, y) or, swapped, binary(y, v), where y
/// is an operand of the chain or the number a.
struct Step {
  enum class Kind : uint8_t { kUnary, kBinary, kBinarySwapped };
  static constexpr int kNumber = -1;

  Kind kind = Kind::kUnary;
  UnaryOp unary = UnaryOp::kAbs;
  BinaryOp binary = BinaryOp::kAdd;
  int operand = kNumber;  ///< 1 … of the loops
  float a = 0;
  float b = 0;
};

/// Steps that run over a block of 4 KiB at a time, which stays in the first cache. Operand 0 is
/// what v begins with. Steps that give bool, and those of integers, are not for chains.
struct Chain {
  static constexpr int kMaxSteps = 16;

  Loops loops;
  int num_steps = 0;  ///< at least 1
  std::array<Step, kMaxSteps> steps{};
};
void run_chain(const Chain& chain, const float* const* operands, float* result, ThreadPool& pool);

/// result[i] = start + i·step in i64, with wrap-around, converted as cast does.
void arange(Element element, int64_t count, int64_t start, int64_t step, void* result);

}  // namespace downhaul::kernels

#pragma once

#include <cstdint>
#include <limits>

/// What a kernel does to a sum before it stores it, and which function of one value it knows.
namespace downhaul::kernels {

/// A function of one value. `lo` and `hi` stand in Epilogue. NaN stays NaN in all of them.
/// Formulas, in f32, errors in kernels/math-inl.h:
enum class Activation : uint8_t {
  kNone,
  kClamp,        ///< min(max(x, lo), hi): relu is (0, inf), relu6 (0, 6)
  kGelu,         ///< x/2 (1 + erf(x/sqrt(2)))
  kGeluTanh,     ///< x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kHardSwish,    ///< x min(max(x + 3, 0), 6) / 6
  kHardSigmoid,  ///< min(max(x + 3, 0), 6) / 6
  kSigmoid,      ///< 1 / (1 + exp(-x))
  kSilu,         ///< x / (1 + exp(-x))
  kTanh,
  kLeakyRelu,  ///< x > 0 ? x : lo x
};

/// What is done with the value of the second tensor, `Epilogue::operand`.
enum class Combine : uint8_t {
  kNone,
  kAddBefore,      ///< y = activation(v + operand)
  kAddAfter,       ///< y = activation(v) + operand
  kMultiplyAfter,  ///< y = activation(v) * operand: a gate
};

/// y = combine(activation(scale * sum)), where the sum has its bias already. The default stores the
/// sum as it is. Every step is rounded to f32 by itself (scale, addition, multiplication).
struct Epilogue {
  Activation activation = Activation::kNone;
  Combine combine = Combine::kNone;
  float lo = -std::numeric_limits<float>::infinity();
  float hi = std::numeric_limits<float>::infinity();
  float scale = 1.0f;
  /// Second tensor, element (row, column) at row * operand_stride + column. May be the result
  /// itself (same pointer and stride, without scatter), or must not overlap it.
  const float* operand = nullptr;
  int64_t operand_stride = 0;
  /// Scatter: when head_dim > 0, column j of the result goes to
  /// c + (j / head_dim) * head_stride + row * ldc + j % head_dim, as in [heads][rows][head_dim].
  int64_t head_dim = 0;
  int64_t head_stride = 0;
};

}  // namespace downhaul::kernels

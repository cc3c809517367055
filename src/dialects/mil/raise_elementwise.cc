#include <cmath>

#include "base/strings.h"
#include "dialects/mil/raiser.h"

namespace downhaul::coreml {
namespace {

template <const OpDef& kOp>
Values unary(RaiseCall& c) {
  return {c.b.op(kOp, {c.in("x")})};
}
template <const OpDef& kOp>
Values binary(RaiseCall& c) {
  return {c.b.op(kOp, {c.in("x"), c.in("y")})};
}

Values identity(RaiseCall& c) { return {c.in("x")}; }

Values relu(RaiseCall& c) { return {c.b.op(ops::kClamp, {c.in("x")}, {{"min", 0.0}})}; }
Values relu6(RaiseCall& c) {
  return {c.b.op(ops::kClamp, {c.in("x")}, {{"min", 0.0}, {"max", 6.0}})};
}
Values clip(RaiseCall& c) {
  Value* x = c.in("x");
  return {c.b.op(ops::kClamp, {x}, {{"min", c.number("alpha", 0)}, {"max", c.number("beta", 0)}})};
}

Values gelu(RaiseCall& c) {
  Value* x = c.in("x");
  const std::string mode = c.text("mode", "EXACT");
  if (mode == "SIGMOID_APPROXIMATION") {
    Value* gate = c.b.op(ops::kSigmoid, {c.b.op(ops::kMul, {x, c.scalar(x, 1.702)})});
    return {c.b.op(ops::kMul, {x, gate})};
  }
  if (mode != "EXACT" && mode != "TANH_APPROXIMATION")
    return {c.refuse(cat("mode ", printable(mode, 40)))};
  return {
      c.b.op(ops::kGelu, {x}, {{"approximate", std::string(mode == "EXACT" ? "none" : "tanh")}})};
}

Values sigmoid_hard(RaiseCall& c) {
  // 1/6 as a half is 2e-5 away from it.
  constexpr double kNear = 1e-4;
  Value* x = c.in("x");
  const double alpha = c.number("alpha", 0.2), beta = c.number("beta", 0.5);
  if (std::fabs(alpha - 1.0 / 6) < kNear && beta == 0.5) return {c.b.op(ops::kHardsigmoid, {x})};
  Value* line = c.b.op(ops::kAdd, {c.b.op(ops::kMul, {x, c.scalar(x, alpha)}), c.scalar(x, beta)});
  return {c.b.op(ops::kClamp, {line}, {{"min", 0.0}, {"max", 1.0}})};
}

Values thresholded_relu(RaiseCall& c) {
  Value* x = c.in("x");
  Value* above = c.b.op(ops::kGe, {x, c.scalar(x, c.number("alpha", 1))});
  return {c.b.op(ops::kWhere, {above, x, c.scalar(x, 0)})};
}

Values leaky_relu(RaiseCall& c) {
  Value* x = c.in("x");
  return {c.b.op(ops::kLeakyRelu, {x}, {{"negative_slope", c.number("alpha", 0.01)}})};
}
Values elu(RaiseCall& c) {
  Value* x = c.in("x");
  return {c.b.op(ops::kElu, {x}, {{"alpha", c.number("alpha", 1)}})};
}
Values prelu(RaiseCall& c) {
  Value* x = c.in("x");
  return {c.b.op(ops::kPrelu, {x, c.in("alpha")})};
}

Values square(RaiseCall& c) {
  Value* x = c.in("x");
  return {c.b.op(ops::kMul, {x, x})};
}

/// op(x + epsilon), where epsilon is usually too small to matter.
template <const OpDef& kOp>
Values with_epsilon(RaiseCall& c) {
  Value* x = c.in("x");
  const double epsilon = c.number("epsilon", 0);
  if (x != nullptr && epsilon != 0) x = c.b.op(ops::kAdd, {x, c.scalar(x, epsilon)});
  return {c.b.op(kOp, {x})};
}
Values rsqrt(RaiseCall& c) {
  Value* x = c.in("x");
  const double epsilon = c.number("epsilon", 1e-12);
  if (x != nullptr && epsilon != 0) x = c.b.op(ops::kAdd, {x, c.scalar(x, epsilon)});
  return {c.b.op(ops::kRsqrt, {x})};
}

Values select(RaiseCall& c) {
  Value* cond = c.in("cond");
  return {c.b.op(ops::kWhere, {cond, c.in("a"), c.in("b")})};
}

Values cast(RaiseCall& c) {
  Value* x = c.in("x");
  const std::string to = c.text("dtype", "");
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"fp16", DType::kF16},  {"fp32", DType::kF32},  {"int32", DType::kI32},
      {"bool", DType::kBool}, {"int8", DType::kI8},   {"uint8", DType::kU8},
      {"int16", DType::kI16}, {"uint16", DType::kI32}};
  for (const auto& [name, dtype] : kTypes) {
    if (name == to) {
      return {x != nullptr && x->dtype() == dtype ? x
                                                  : c.b.op(ops::kCast, {x}, {{"dtype", dtype}})};
    }
  }
  return {c.refuse(cat("dtype ", printable(to, 40)))};
}

constexpr RaiseRow kRows[] = {
    {"abs", unary<ops::kAbs>},
    {"add", binary<ops::kAdd>},
    {"atan", unary<ops::kAtan>},
    {"cast", cast},
    {"ceil", unary<ops::kCeil>},
    {"clip", clip},
    {"cos", unary<ops::kCos>},
    {"elu", elu},
    {"equal", binary<ops::kEq>},
    {"erf", unary<ops::kErf>},
    {"exp", unary<ops::kExp>},
    {"floor", unary<ops::kFloor>},
    {"floor_div", binary<ops::kFloorDivide>},
    {"gelu", gelu},
    {"greater", binary<ops::kGt>},
    {"greater_equal", binary<ops::kGe>},
    {"identity", identity},
    {"inverse", with_epsilon<ops::kReciprocal>},
    {"leaky_relu", leaky_relu},
    {"less", binary<ops::kLt>},
    {"less_equal", binary<ops::kLe>},
    {"log", with_epsilon<ops::kLog>},
    {"logical_and", binary<ops::kLogicalAnd>},
    {"logical_not", unary<ops::kLogicalNot>},
    {"logical_or", binary<ops::kLogicalOr>},
    {"logical_xor", binary<ops::kLogicalXor>},
    {"maximum", binary<ops::kMaximum>},
    {"minimum", binary<ops::kMinimum>},
    {"mod", binary<ops::kRemainder>},
    {"mul", binary<ops::kMul>},
    {"not_equal", binary<ops::kNe>},
    {"pow", binary<ops::kPow>},
    {"prelu", prelu},
    {"real_div", binary<ops::kDiv>},
    {"relu", relu},
    {"relu6", relu6},
    {"round", unary<ops::kRound>},
    {"rsqrt", rsqrt},
    {"select", select},
    {"sigmoid", unary<ops::kSigmoid>},
    {"sigmoid_hard", sigmoid_hard},
    {"sign", unary<ops::kSign>},
    {"silu", unary<ops::kSilu>},
    {"sin", unary<ops::kSin>},
    {"softplus", unary<ops::kSoftplus>},
    {"sqrt", unary<ops::kSqrt>},
    {"square", square},
    {"sub", binary<ops::kSub>},
    {"tanh", unary<ops::kTanh>},
    {"thresholded_relu", thresholded_relu},
};

}  // namespace

std::span<const RaiseRow> raise_elementwise_rows() { return kRows; }

}  // namespace downhaul::coreml

// Operators that compute each element by itself.
#include "base/strings.h"
#include "dialects/mil/table.h"

namespace downhaul::coreml {
namespace {

// Core ML adds these to keep away from 0; here 0 gives what the IR says.
constexpr double kNoEpsilon = 0;

template <const char* kType>
void unary(const Node& node, ProgramBuilder& b) {
  b.result(node, kType, {{"x", b.value(node.operand(0))}});
}
template <const char* kType>
void binary(const Node& node, ProgramBuilder& b) {
  b.result(node, kType, {{"x", b.value(node.operand(0))}, {"y", b.value(node.operand(1))}});
}

std::string floats_only(const Node& node, const Target& /*target*/) {
  return is_float(node.operand(0)->dtype()) ? "" : "Core ML computes it on floats only";
}

void emit_neg(const Node& node, ProgramBuilder& b) {
  const std::string minus =
      is_float(node.result()->dtype()) ? b.number("y", -1) : b.integer("y", -1);
  b.result(node, "mul", {{"x", b.value(node.operand(0))}, {"y", minus}});
}

template <const char* kType>
void with_epsilon(const Node& node, ProgramBuilder& b) {
  b.result(node, kType,
           {{"x", b.value(node.operand(0))}, {"epsilon", b.number("epsilon", kNoEpsilon)}});
}

void emit_clamp(const Node& node, ProgramBuilder& b) {
  const std::string x = b.value(node.operand(0));
  const bool real = is_float(node.result()->dtype());
  const auto bound = [&](const char* name) {
    return real ? b.number(name, node.f(name))
                : b.integer(name, static_cast<int64_t>(node.f(name)));
  };
  const bool low = node.has_attr("min"), high = node.has_attr("max");
  if (real && low && !high && node.f("min") == 0) {
    b.result(node, "relu", {{"x", x}});
  } else if (real && low && high) {
    b.result(node, "clip", {{"x", x}, {"alpha", bound("min")}, {"beta", bound("max")}});
  } else if (low && high) {
    const std::string above =
        b.step(node, "maximum", {{"x", x}, {"y", bound("min")}}, sizes_of(node.result()));
    b.result(node, "minimum", {{"x", above}, {"y", bound("max")}});
  } else if (low) {
    b.result(node, "maximum", {{"x", x}, {"y", bound("min")}});
  } else if (high) {
    b.result(node, "minimum", {{"x", x}, {"y", bound("max")}});
  } else {
    b.alias(node.result(), x);
  }
}

void emit_gelu(const Node& node, ProgramBuilder& b) {
  const bool exact = node.s("approximate") == "none";
  b.result(node, "gelu",
           {{"x", b.value(node.operand(0))},
            {"mode", b.text("mode", exact ? "EXACT" : "TANH_APPROXIMATION")}});
}

std::string hard_sigmoid(const Node& node, ProgramBuilder& b, const std::string& x) {
  return b.step(node, "sigmoid_hard",
                {{"x", x}, {"alpha", b.number("alpha", 1.0 / 6)}, {"beta", b.number("beta", 0.5)}},
                sizes_of(node.result()));
}

void emit_hardsigmoid(const Node& node, ProgramBuilder& b) {
  b.result(node, "sigmoid_hard",
           {{"x", b.value(node.operand(0))},
            {"alpha", b.number("alpha", 1.0 / 6)},
            {"beta", b.number("beta", 0.5)}});
}

void emit_hardswish(const Node& node, ProgramBuilder& b) {
  const std::string x = b.value(node.operand(0));
  const std::string gate = hard_sigmoid(node, b, x);
  // Below -3 the gate is 0 already; the threshold keeps minus infinity from becoming NaN.
  const std::string kept =
      b.step(node, "thresholded_relu", {{"x", x}, {"alpha", b.number("alpha", -3)}},
             sizes_of(node.result()));
  b.result(node, "mul", {{"x", kept}, {"y", gate}});
}

void emit_leaky_relu(const Node& node, ProgramBuilder& b) {
  b.result(
      node, "leaky_relu",
      {{"x", b.value(node.operand(0))}, {"alpha", b.number("alpha", node.f("negative_slope"))}});
}
void emit_elu(const Node& node, ProgramBuilder& b) {
  b.result(node, "elu",
           {{"x", b.value(node.operand(0))}, {"alpha", b.number("alpha", node.f("alpha"))}});
}

std::string refuse_softplus(const Node& node, const Target& target) {
  std::string why = floats_only(node, target);
  if (why.empty() && node.has_attr("beta") && node.f("beta") != 1) why = "beta is not 1";
  return why;
}

void emit_mish(const Node& node, ProgramBuilder& b) {
  const std::string x = b.value(node.operand(0));
  const Sizes sizes = sizes_of(node.result());
  const std::string soft = b.step(node, "softplus", {{"x", x}}, sizes);
  const std::string gate = b.step(node, "tanh", {{"x", soft}}, sizes);
  b.result(node, "mul", {{"x", x}, {"y", gate}});
}

std::string refuse_prelu(const Node& node, const Target& /*target*/) {
  if (!node.operand(1)->is_constant()) return "its slopes are computed";
  return node.operand(0)->rank() >= 3 ? "" : "Core ML's takes images only";
}
void emit_prelu(const Node& node, ProgramBuilder& b) {
  b.result(node, "prelu",
           {{"x", b.value(node.operand(0))},
            {"alpha", b.reshaped(node.operand(1), {node.operand(1)->constant().num_elements()})}});
}

void emit_cast(const Node& node, ProgramBuilder& b) {
  const Value* from = node.operand(0);
  const std::string x = b.value(from);
  const mil::DType to = b.type_of(node.result()->dtype());
  if (b.type_of(from->dtype()) == to) {
    b.alias(node.result(), x);
    return;
  }
  b.result(node, "cast", {{"x", x}, {"dtype", b.text("dtype", std::string(mil::dtype_name(to)))}});
}

void emit_where(const Node& node, ProgramBuilder& b) {
  b.result(node, "select",
           {{"cond", b.value(node.operand(0))},
            {"a", b.value(node.operand(1))},
            {"b", b.value(node.operand(2))}});
}

std::string refuse_bool(const Node& node, const Target& /*target*/) {
  return node.operand(0)->dtype() == DType::kBool ? "Core ML computes it on numbers only" : "";
}

constexpr char kAbs[] = "abs", kAtan[] = "atan", kCeil[] = "ceil", kCos[] = "cos", kErf[] = "erf",
               kExp[] = "exp", kFloor[] = "floor", kLog[] = "log", kRound[] = "round",
               kRsqrt[] = "rsqrt", kSign[] = "sign", kSin[] = "sin", kSqrt[] = "sqrt",
               kTanh[] = "tanh", kSigmoid[] = "sigmoid", kSilu[] = "silu", kSoftplus[] = "softplus",
               kNot[] = "logical_not", kInverse[] = "inverse";
constexpr char kAdd[] = "add", kSub[] = "sub", kMul[] = "mul", kDiv[] = "real_div",
               kMaximum[] = "maximum", kMinimum[] = "minimum", kPow[] = "pow", kEq[] = "equal",
               kNe[] = "not_equal", kGe[] = "greater_equal", kGt[] = "greater",
               kLe[] = "less_equal", kLt[] = "less", kAnd[] = "logical_and", kOr[] = "logical_or",
               kXor[] = "logical_xor", kFloorDiv[] = "floor_div", kMod[] = "mod";

constexpr EmitRow kRows[] = {
    {&ops::kAbs, nullptr, unary<kAbs>},
    {&ops::kAtan, floats_only, unary<kAtan>},
    {&ops::kCeil, floats_only, unary<kCeil>},
    {&ops::kCos, floats_only, unary<kCos>},
    {&ops::kErf, floats_only, unary<kErf>},
    {&ops::kExp, floats_only, unary<kExp>},
    {&ops::kFloor, floats_only, unary<kFloor>},
    {&ops::kLog, floats_only, with_epsilon<kLog>},
    {&ops::kLogicalNot, nullptr, unary<kNot>},
    {&ops::kNeg, nullptr, emit_neg},
    {&ops::kReciprocal, floats_only, with_epsilon<kInverse>},
    {&ops::kRound, floats_only, unary<kRound>},
    {&ops::kRsqrt, floats_only, with_epsilon<kRsqrt>},
    {&ops::kSign, nullptr, unary<kSign>},
    {&ops::kSin, floats_only, unary<kSin>},
    {&ops::kSqrt, floats_only, unary<kSqrt>},
    {&ops::kTanh, floats_only, unary<kTanh>},
    {&ops::kClamp, nullptr, emit_clamp},
    {&ops::kElu, floats_only, emit_elu},
    {&ops::kGelu, floats_only, emit_gelu},
    {&ops::kHardsigmoid, floats_only, emit_hardsigmoid},
    {&ops::kHardswish, floats_only, emit_hardswish},
    {&ops::kLeakyRelu, floats_only, emit_leaky_relu},
    {&ops::kMish, floats_only, emit_mish},
    {&ops::kPrelu, refuse_prelu, emit_prelu},
    {&ops::kSigmoid, floats_only, unary<kSigmoid>},
    {&ops::kSilu, floats_only, unary<kSilu>},
    {&ops::kSoftplus, refuse_softplus, unary<kSoftplus>},
    {&ops::kAdd, refuse_bool, binary<kAdd>},
    {&ops::kSub, refuse_bool, binary<kSub>},
    {&ops::kMul, refuse_bool, binary<kMul>},
    {&ops::kDiv, floats_only, binary<kDiv>},
    {&ops::kFloorDivide, refuse_bool, binary<kFloorDiv>},
    {&ops::kRemainder, refuse_bool, binary<kMod>},
    {&ops::kMaximum, refuse_bool, binary<kMaximum>},
    {&ops::kMinimum, refuse_bool, binary<kMinimum>},
    {&ops::kPow, floats_only, binary<kPow>},
    {&ops::kEq, refuse_bool, binary<kEq>},
    {&ops::kNe, refuse_bool, binary<kNe>},
    {&ops::kGe, refuse_bool, binary<kGe>},
    {&ops::kGt, refuse_bool, binary<kGt>},
    {&ops::kLe, refuse_bool, binary<kLe>},
    {&ops::kLt, refuse_bool, binary<kLt>},
    {&ops::kLogicalAnd, nullptr, binary<kAnd>},
    {&ops::kLogicalOr, nullptr, binary<kOr>},
    {&ops::kLogicalXor, nullptr, binary<kXor>},
    {&ops::kCast, nullptr, emit_cast},
    {&ops::kWhere, nullptr, emit_where},
};

}  // namespace

std::span<const EmitRow> elementwise_rows() { return kRows; }

}  // namespace downhaul::coreml

// Arithmetic, comparisons, logic and selection: torch's type promotion made explicit by casts,
// numbers hoisted to rank-0 constants.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/strings.h"
#include "dialects/aten/raise.h"

namespace downhaul::aten {
namespace {

struct Promoted {
  Value* self = nullptr;
  Value* other = nullptr;
  DType dtype = DType::kF32;
};

Promoted promoted(Call& c, const Operand& self, const Operand& other) {
  const DType dtype = result_type(std::array{self, other});
  return {c.as_tensor(self, dtype), c.as_tensor(other, dtype), dtype};
}

Promoted promoted(Call& c) { return promoted(c, c.operand("self"), c.operand("other")); }

bool is_one(const Number& n) { return !n.symbolic && n.f == 1.0; }

// `other` times the argument `alpha`.
Value* scaled(Call& c, Value* other, DType dtype) {
  const Number alpha = c.number("alpha");
  if (is_one(alpha)) return other;
  if (dtype == DType::kBool || (!is_float(dtype) && alpha.kind == Number::Kind::kFloat)) {
    c.invalid("argument 'alpha' does not fit the operands' dtype");
  }
  return c.mul(other, c.scalar(dtype, alpha));
}

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return 65504;
    case DType::kBF16:
      return 0x1.fep127;
    case DType::kF64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

Value* as_bool(Call& c, Value* v) { return c.cast(v, DType::kBool); }

Value* as_floating(Call& c, Value* v) { return is_float(dtype_of(v)) ? v : c.cast(v, DType::kF32); }

}  // namespace

Out raise_binary(Call& c) {
  const Promoted p = promoted(c);
  return c.binary(c.row_op(), p.self, p.other);
}

Out raise_add(Call& c) {
  const Promoted p = promoted(c);
  if (p.dtype == DType::kBool) return c.binary(ops::kLogicalOr, p.self, p.other);
  return c.add(p.self, scaled(c, p.other, p.dtype));
}

Out raise_sub(Call& c) {
  const Promoted p = promoted(c);
  return c.sub(p.self, scaled(c, p.other, p.dtype));
}

Out raise_rsub(Call& c) {
  const Promoted p = promoted(c);
  return c.sub(p.other, scaled(c, p.self, p.dtype));
}

Out raise_mul(Call& c) {
  const Promoted p = promoted(c);
  if (p.dtype == DType::kBool) return c.binary(ops::kLogicalAnd, p.self, p.other);
  return c.mul(p.self, p.other);
}

// Vectors: every pair.
Out raise_outer(Call& c) {
  const Promoted p = promoted(c, c.operand("self"), c.operand("vec2"));
  if (rank_of(p.self) != 1 || rank_of(p.other) != 1) {
    c.invalid("the operands are no vectors");
    return {};
  }
  return c.mul(c.reshape(p.self, {dims_of(p.self)[0], Dim(1)}), p.other);
}

Out raise_div(Call& c) {
  const Operand self = c.operand("self");
  const Operand other = c.operand("other");
  DType dtype = result_type(std::array{self, other});
  if (!is_float(dtype)) dtype = DType::kF32;
  return c.binary(ops::kDiv, c.as_tensor(self, dtype), c.as_tensor(other, dtype));
}

Out raise_div_mode(Call& c) {
  if (!c.has("rounding_mode")) return raise_div(c);
  const std::string mode = c.s("rounding_mode");
  const Promoted p = promoted(c);
  if (mode == "floor") return c.binary(ops::kFloorDivide, p.self, p.other);
  if (mode != "trunc") {
    c.invalid(cat("rounding_mode '", printable(mode), "', expected floor or trunc"));
    return {};
  }
  if (is_float(p.dtype)) return c.op(ops::kTrunc, {c.binary(ops::kDiv, p.self, p.other)});
  // fmod has the sign of the dividend, so what is left divides exactly.
  Value* whole = c.sub(p.self, c.binary(ops::kFmod, p.self, p.other));
  return c.binary(ops::kFloorDivide, whole, p.other);
}

Out raise_pow(Call& c) {
  const Promoted p = promoted(c, c.operand("self"), c.operand("exponent"));
  return c.binary(ops::kPow, p.self, p.other);
}

Out raise_bitwise(Call& c) {
  const Promoted p = promoted(c);
  if (p.dtype != DType::kBool) return c.binary(c.row_op(), p.self, p.other);
  const OpDef& logical = &c.row_op() == &ops::kBitwiseAnd  ? ops::kLogicalAnd
                         : &c.row_op() == &ops::kBitwiseOr ? ops::kLogicalOr
                                                           : ops::kLogicalXor;
  return c.binary(logical, p.self, p.other);
}

Out raise_logical(Call& c) {
  return c.binary(c.row_op(), as_bool(c, c.tensor("self")), as_bool(c, c.tensor("other")));
}

Out raise_logical_not(Call& c) { return c.op(ops::kLogicalNot, {as_bool(c, c.tensor("self"))}); }

Out raise_rounding(Call& c) {
  Value* x = c.tensor("self");
  if (!is_float(dtype_of(x))) return x;
  return c.op(c.row_op(), {x});
}

Out raise_float_test(Call& c) {
  Value* x = c.tensor("self");
  if (is_float(dtype_of(x))) return c.op(c.row_op(), {x});
  // No integer is infinite or undefined.
  return c.expand(c.scalar(DType::kBool, 0), dims_of(x));
}

Out raise_isfinite(Call& c) {
  Value* x = c.tensor("self");
  if (!is_float(dtype_of(x))) return c.expand(c.scalar(DType::kBool, 1), dims_of(x));
  return c.op(ops::kLogicalNot,
              {c.binary(ops::kLogicalOr, c.op(ops::kIsInf, {x}), c.op(ops::kIsNan, {x}))});
}

Out raise_square(Call& c) {
  Value* x = c.tensor("self");
  return c.mul(x, x);
}

Out raise_exp2(Call& c) {
  Value* x = as_floating(c, c.tensor("self"));
  return c.binary(ops::kPow, c.scalar(dtype_of(x), 2), x);
}

Out raise_log_of_base(Call& c) {
  Value* x = as_floating(c, c.tensor("self"));
  const double factor =
      c.row().overload == "aten.log2.default" ? std::numbers::log2e : std::numbers::log10e;
  return c.mul(c.op(ops::kLog, {x}), c.scalar(dtype_of(x), factor));
}

Out raise_clamp(Call& c) {
  std::vector<Operand> operands = {c.tensor("self")};
  const std::optional<Number> low = c.maybe_number("min");
  const std::optional<Number> high = c.maybe_number("max");
  if (low) operands.emplace_back(*low);
  if (high) operands.emplace_back(*high);
  const DType dtype = result_type(operands);
  Value* x = c.cast(std::get<Value*>(operands[0]), dtype);
  if ((low && low->symbolic) || (high && high->symbolic)) {
    if (low) x = c.binary(ops::kMaximum, x, c.scalar(dtype, *low));
    if (high) x = c.binary(ops::kMinimum, x, c.scalar(dtype, *high));
    return x;
  }
  NamedAttrs attrs;
  if (low) attrs.emplace_back("min", low->f);
  if (high) attrs.emplace_back("max", high->f);
  return c.op(ops::kClamp, {x}, attrs);
}

Out raise_clamp_tensor(Call& c) {
  std::vector<Operand> operands = {c.tensor("self")};
  for (const char* bound : {"min", "max"}) {
    if (c.has(bound)) operands.push_back(c.operand(bound));
  }
  const DType dtype = result_type(operands);
  Value* x = c.as_tensor(operands[0], dtype);
  if (c.has("min")) x = c.binary(ops::kMaximum, x, c.as_tensor(c.operand("min"), dtype));
  if (c.has("max")) x = c.binary(ops::kMinimum, x, c.as_tensor(c.operand("max"), dtype));
  return x;
}

Out raise_clamp_one(Call& c) {
  const bool is_min = c.row().overload == "aten.clamp_min.default";
  const Number bound = c.number(is_min ? "min" : "max");
  const Operand self = c.tensor("self");
  const DType dtype = result_type(std::array{self, Operand(bound)});
  Value* x = c.as_tensor(self, dtype);
  if (bound.symbolic) {
    return c.binary(is_min ? ops::kMaximum : ops::kMinimum, x, c.scalar(dtype, bound));
  }
  return c.op(ops::kClamp, {x}, {{is_min ? "min" : "max", bound.f}});
}

Out raise_relu(Call& c) { return c.op(ops::kClamp, {c.tensor("self")}, {{"min", 0.0}}); }

Out raise_relu6(Call& c) {
  return c.op(ops::kClamp, {c.tensor("self")}, {{"min", 0.0}, {"max", 6.0}});
}

Out raise_hardtanh(Call& c) {
  return c.op(ops::kClamp, {c.tensor("self")}, {{"min", c.f("min_val")}, {"max", c.f("max_val")}});
}

namespace {

// scale·x above zero, scale·alpha·(exp(input_scale·x) - 1) below.
Out exponential_unit(Call& c, double alpha, double scale, double input_scale) {
  Value* x = c.tensor("self");
  const DType dtype = dtype_of(x);
  if (!(input_scale > 0)) {
    c.fail(cat("input_scale ", input_scale, ", expected a positive number"));
    return {};
  }
  // With u = input_scale·x: elu(u) is u above zero, so a factor of 1 / input_scale gives x back.
  Value* u = input_scale == 1.0 ? x : c.mul(x, c.scalar(dtype, input_scale));
  Value* y = c.op(ops::kElu, {u}, {{"alpha", alpha * input_scale}});
  const double factor = scale / input_scale;
  return factor == 1.0 ? y : c.mul(y, c.scalar(dtype, factor));
}

}  // namespace

Out raise_elu(Call& c) {
  return exponential_unit(c, c.f("alpha"), c.f("scale"), c.f("input_scale"));
}

Out raise_celu(Call& c) {
  const double alpha = c.f("alpha");
  return exponential_unit(c, alpha, 1.0, 1.0 / alpha);
}

// Its two constants make activations keep mean 0 and variance 1 (Klambauer et al., 2017).
Out raise_selu(Call& c) { return exponential_unit(c, 1.6732632423543772, 1.0507009873554805, 1.0); }

Out raise_log_sigmoid(Call& c) {
  return c.op(ops::kNeg, {c.op(ops::kSoftplus, {c.op(ops::kNeg, {c.tensor("self")})})});
}

Out raise_glu(Call& c) {
  Value* x = c.tensor("self");
  const int64_t dim = c.axis("dim", rank_of(x));
  if (rank_of(x) == 0 || !c.ok()) {
    c.invalid("a tensor of rank 0");
    return {};
  }
  const Dim size = x->dim(dim);
  const std::optional<Dim> half = size.divided_by(Dim(2));
  if (!half) {
    c.invalid(cat("dimension ", dim, " has the odd size ", size.str()));
    return {};
  }
  return c.mul(c.slice(x, dim, 0, *half), c.op(ops::kSigmoid, {c.slice(x, dim, *half, size)}));
}

Out raise_addc(Call& c) {
  const Operand self = c.tensor("self");
  const Operand first = c.tensor("tensor1");
  const Operand second = c.tensor("tensor2");
  const DType dtype = result_type(std::array{self, first, second});
  Value* term = c.binary(c.row_op(), c.as_tensor(first, dtype), c.as_tensor(second, dtype));
  const Number value = c.number("value");
  if (!is_one(value)) term = c.mul(term, c.scalar(dtype, value));
  return c.add(c.as_tensor(self, dtype), term);
}

Out raise_lerp(Call& c) {
  Value* start = c.tensor("self");
  Value* span = c.sub(c.tensor("end"), start);
  return c.add(start, c.mul(span, c.as_tensor(c.operand("weight"), dtype_of(start))));
}

Out raise_where(Call& c) {
  Value* condition = as_bool(c, c.tensor("condition"));
  const Promoted p = promoted(c);
  return c.op(ops::kWhere, {condition, p.self, p.other});
}

// Infinities become the largest numbers of the dtype where no other is given.
Out raise_nan_to_num(Call& c) {
  Value* x = c.tensor("self");
  const DType dtype = dtype_of(x);
  if (!is_float(dtype)) return x;
  const auto replace = [&](Value* condition, double by) {
    x = c.op(ops::kWhere, {condition, c.scalar(dtype, by), x});
  };
  const double largest = largest_finite(dtype);
  replace(c.op(ops::kIsNan, {x}), c.maybe_f("nan").value_or(0));
  replace(c.binary(ops::kEq, x, c.scalar(dtype, INFINITY)), c.maybe_f("posinf").value_or(largest));
  replace(c.binary(ops::kEq, x, c.scalar(dtype, -INFINITY)),
          c.maybe_f("neginf").value_or(-largest));
  return x;
}

Out raise_masked_fill(Call& c) {
  Value* self = c.tensor("self");
  Value* value = c.as_tensor(c.operand("value"), dtype_of(self));
  return c.op(ops::kWhere, {as_bool(c, c.tensor("mask")), value, self});
}

}  // namespace downhaul::aten

// Conditions become f32 indicators: 1 where they hold, else 0. `cast(condition, f32)` is the form
// that the rewrites push towards the integers; a cast of an integer to f32 is left to a kernel
// outside. Each is exact: integers below 2²⁴ are, and rounding a larger one keeps it above the
// constants that are compared with.
#include <cmath>

#include "ops/ops.h"
#include "passes/values.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

namespace {

constexpr double kExactIntegers = 1 << 24;

bool to_f32(const Node& cast) { return cast.dtype("dtype") == DType::kF32; }

/// |x| cut at 1: 0 for 0, 1 for every other integer.
Value* nonzero(Builder& b, Value* x) { return clamp(b, b.op(ops::kAbs, {x}), {}, 1); }

/// `x - c` for an integer x and an integer constant c that f32 holds exactly; null otherwise.
Value* distance(Builder& b, Value* x, Value* c, double shift = 0) {
  const std::optional<double> value = splat_value(c);
  if (!is_integer(x->dtype()) || x->is_constant() || !value) return nullptr;
  const double offset = shift - *value;
  if (std::abs(*value) + std::abs(shift) >= kExactIntegers) return nullptr;
  return add(b, indicator(b, x), number(b, offset));
}

Value* indicator_of_comparison(const Node& node, Builder& b) {
  Value* x = node.operand(0);
  Value* c = node.operand(1);
  const bool swapped = x->is_constant();
  if (swapped) std::swap(x, c);
  if (node.is(ops::kEq) || node.is(ops::kNe)) {
    Value* d = distance(b, x, c);
    if (d == nullptr) return nullptr;
    Value* differs = nonzero(b, d);
    return node.is(ops::kNe) ? differs : sub(b, number(b, 1), differs);
  }
  // Of integers, x > c is x - c >= 1, so an indicator is x - c or x - c + 1 cut to [0, 1].
  const bool strict = node.is(ops::kLt) || node.is(ops::kGt);
  const bool upwards = (node.is(ops::kGt) || node.is(ops::kGe)) != swapped;
  if (upwards) {
    Value* d = distance(b, x, c, strict ? 0 : 1);
    return d == nullptr ? nullptr : clamp(b, d, 0, 1);
  }
  Value* d = distance(b, x, c, strict ? 0 : -1);
  return d == nullptr ? nullptr : clamp(b, b.op(ops::kNeg, {d}), 0, 1);
}

Value* indicator_of(const Node& node, Builder& b) {
  for (const OpDef* op : {&ops::kEq, &ops::kNe, &ops::kLt, &ops::kLe, &ops::kGt, &ops::kGe}) {
    if (node.is(*op)) return indicator_of_comparison(node, b);
  }
  // Operands in order, so that the graph does not depend on a compiler's order of evaluation.
  const auto both = [&](const OpDef& op) {
    Value* first = indicator(b, node.operand(0));
    return b.op(op, {first, indicator(b, node.operand(1))});
  };
  const bool bools = !node.operands().empty() && node.operand(0) != nullptr &&
                     node.operand(0)->dtype() == DType::kBool;
  if (node.is(ops::kLogicalAnd) && bools) return both(ops::kMul);
  if (node.is(ops::kLogicalOr) && bools) return clamp(b, both(ops::kAdd), {}, 1);
  if (node.is(ops::kLogicalXor) && bools) return b.op(ops::kAbs, {both(ops::kSub)});
  if (node.is(ops::kLogicalNot) && bools) {
    return sub(b, number(b, 1), indicator(b, node.operand(0)));
  }
  return nullptr;
}

}  // namespace

// cast(comparison or logical operator, f32) → arithmetic on indicators
const Rewrite kIndicatorOfCondition = {
    .name = "xnn_indicator_of_condition",
    .root = &ops::kCast,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      const Value* condition = node.operand(0);
      if (!to_f32(node) || condition->dtype() != DType::kBool) return {};
      if (condition->producer() == nullptr) return {};
      Value* result = indicator_of(*condition->producer(), b);
      if (result == nullptr) return {};
      return {result};
    },
};

// cast(cast(integer, bool), f32) → min(|x|, 1)
const Rewrite kIndicatorOfInteger = {
    .name = "xnn_indicator_of_integer",
    .match = R"(
      shared %c = cast(%x, dtype=bool)
      %y = cast(%c, dtype=f32)
    )",
    .where = [](const Match& m) { return is_integer(m.value("x")->dtype()); },
    .build = [](const Match& m, Builder& b) -> Value* {
      return nonzero(b, indicator(b, m.value("x")));
    },
};

// cast(reshape(condition), f32) → reshape(cast(condition, f32)), and the other moves of data.
const Rewrite kIndicatorBeforeShape = {
    .name = "xnn_indicator_before_shape",
    .root = &ops::kCast,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      const Value* condition = node.operand(0);
      const Node* move = condition->producer();
      if (!to_f32(node) || condition->dtype() != DType::kBool || move == nullptr) return {};
      for (const OpDef* op : {&ops::kReshape, &ops::kPermute, &ops::kExpand, &ops::kSlice}) {
        if (move->is(*op)) return {b.like(*move, {indicator(b, move->operand(0))})};
      }
      return {};
    },
};

// where(condition, a, c) of constants → a·m + c·(1 - m). With 0 as one branch that is one product.
// An infinite branch is the logarithm of the indicator: log 0 = -inf, and 0·inf does not arise.
const Rewrite kWhereOfConstants = {
    .name = "xnn_where_of_constants",
    .match = R"(
      %y = where(%condition, const %a, const %c)
    )",
    .where =
        [](const Match& m) {
          return is_f32(m.value("a")) && splat_value(m.value("a")) && splat_value(m.value("c")) &&
                 !m.value("condition")->is_constant();
        },
    .build = [](const Match& m, Builder& b) -> Value* {
      const double a = *splat_value(m.value("a"));
      const double c = *splat_value(m.value("c"));
      Value* holds = indicator(b, m.value("condition"));
      const auto fails = [&] { return sub(b, number(b, 1), holds); };
      if (std::isnan(a) || std::isnan(c)) return nullptr;
      if (std::isinf(a) || std::isinf(c)) {
        if (a == 0 && c < 0) return b.op(ops::kLog, {holds});
        if (c == 0 && a < 0) return b.op(ops::kLog, {fails()});
        return nullptr;
      }
      if (c == 0) return mul(b, holds, number(b, a));
      if (a == 0) return mul(b, fails(), number(b, c));
      Value* first = mul(b, holds, number(b, a));
      return add(b, first, mul(b, fails(), number(b, c)));
    },
};

}  // namespace downhaul::xnnpack

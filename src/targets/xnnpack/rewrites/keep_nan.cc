// The runtime's exp gives 0 for NaN, its maximum and minimum may give the other operand. Its clamp
// keeps NaN, so clamp(x, 0, 0) is NaN where x is and 0 elsewhere.
#include <algorithm>

#include "ops/ops.h"
#include "passes/values.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

namespace {

bool is_nan_marker(const Value* value) {
  if (is_op(value, ops::kAdd)) {
    const Node& sum = *value->producer();
    return is_nan_marker(sum.operand(0)) && is_nan_marker(sum.operand(1));
  }
  if (!is_op(value, ops::kClamp)) return false;
  const Node& clamp = *value->producer();
  return clamp.has_attr("min") && clamp.has_attr("max") && clamp.f("min") == 0 &&
         clamp.f("max") == 0;
}

/// True when nothing reads the value but the addition of a marker.
bool is_marked(const Value* value) {
  if (!value->has_one_use() || value->uses().empty()) return false;
  const Use& use = value->uses().front();
  return use.node->is(ops::kAdd) && is_nan_marker(use.node->operand(1 - use.operand));
}

bool may_be_nan(const Value* value) {
  if (!is_small_constant(value)) return true;
  const std::vector<double> elements = to_doubles(value->constant());
  return std::any_of(elements.begin(), elements.end(), [](double v) { return v != v; });
}

std::vector<Value*> mark(Node& node, Builder& b) {
  Value* marker = nullptr;
  if (!is_f32(node.result()) || is_marked(node.result())) return {};
  for (Value* operand : node.operands()) {
    if (!may_be_nan(operand)) continue;
    Value* nan = clamp(b, operand, 0, 0);
    marker = marker == nullptr ? nan : add(b, marker, nan);
  }
  if (marker == nullptr) return {};
  return {add(b, b.like(node, node.operands()), marker)};
}

/// max(x, c) and min(x, c) with a number c are clamps, which need no marker.
std::vector<Value*> clamp_or_mark(Node& node, Builder& b) {
  const bool is_max = node.is(ops::kMaximum);
  for (const int i : {0, 1}) {
    const auto bound = splat_value(node.operand(i));
    Value* x = node.operand(1 - i);
    if (!bound || *bound != *bound || !is_f32(x) || !(x->shape() == node.result()->shape()))
      continue;
    return {is_max ? clamp(b, x, *bound, {}) : clamp(b, x, {}, *bound)};
  }
  return mark(node, b);
}

}  // namespace

const Rewrite kKeepNanOfExp = {
    .name = "xnn_keep_nan_of_exp",
    .root = &ops::kExp,
    .apply = mark,
};

const Rewrite kKeepNanOfMaximum = {
    .name = "xnn_keep_nan_of_maximum",
    .root = &ops::kMaximum,
    .apply = clamp_or_mark,
};

const Rewrite kKeepNanOfMinimum = {
    .name = "xnn_keep_nan_of_minimum",
    .root = &ops::kMinimum,
    .apply = clamp_or_mark,
};

}  // namespace downhaul::xnnpack

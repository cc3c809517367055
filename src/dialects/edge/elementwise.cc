#include <cmath>

#include "base/strings.h"
#include "dialects/edge/functions.h"

// Arithmetic kernels that promote their operands, scale one of them, or merge two meanings.
namespace downhaul::edge {
namespace {

/// `v` times the number in argument i, which is 1 in most calls.
Value* scaled(Raising& r, Value* v, size_t i) {
  if (r.number(i) == 1 || v == nullptr) return v;
  return r.b.op(ops::kMul, {v, r.scalar(i, v->dtype())});
}

Values binary(Raising& r, const OpDef& op, Value* self, Value* other) {
  const DType dtype = r.out().dtype;
  if (!r.ok()) return {};
  return {r.b.op(op, {r.cast(self, dtype), r.cast(other, dtype)})};
}

}  // namespace

// --- clamp: hardtanh(self, min, max) has the bounds in its loop, clamp converts them for each
// element

namespace {

Arg bound(const Node& node, std::string_view name) {
  return node.has_attr(name) ? scalar(node.f(name), node.result()->dtype()) : none();
}

}  // namespace

Result<KernelCall> emit_hardtanh(const Node& node) {
  for (const char* name : {"min", "max"})
    if (!node.has_attr(name) || !std::isfinite(node.f(name)))
      return no_kernel(node, cat(name, " is no finite number"));
  return call_of(node, "aten::hardtanh.out",
                 {tensor(node.operand(0)), bound(node, "min"), bound(node, "max")});
}

Result<KernelCall> emit_clamp(const Node& node) {
  if (!node.has_attr("min") && !node.has_attr("max")) return no_kernel(node, "has no bound");
  return call_of(node, "aten::clamp.out",
                 {tensor(node.operand(0)), bound(node, "min"), bound(node, "max")});
}

Values raise_clamp(Raising& r) {
  NamedAttrs attrs;
  if (!r.is_none(1)) attrs.emplace_back("min", r.number(1));
  if (!r.is_none(2)) attrs.emplace_back("max", r.number(2));
  Value* self = r.cast(r.tensor(0), r.out().dtype);
  if (!r.ok()) return {};
  return {r.b.op(ops::kClamp, {self}, attrs)};
}

Values raise_elu(Raising& r) {
  // elu(x) = scale * (x > 0 ? x : alpha * (exp(x * input_scale) - 1)); the operator has the
  // scales 1.
  Value* self = r.tensor(0);
  const double alpha = r.number(1);
  if (r.number(2) != 1 || r.number(3) != 1) r.refuse("scales other than 1");
  if (!r.ok()) return {};
  return {r.b.op(ops::kElu, {self}, {{"alpha", alpha}})};
}

// --- pow with a number as base

Result<KernelCall> emit_pow_of_scalar(const Node& node) {
  Arg base;
  if (!is_scalar_constant(node.operand(0), &base)) return no_kernel(node, "self is no number");
  return call_of(node, "aten::pow.Scalar_out", {std::move(base), tensor(node.operand(1))});
}

Values raise_pow_of_scalar(Raising& r) {
  Value* exponent = r.cast(r.tensor(1), r.out().dtype);
  Value* base = r.scalar(0, r.out().dtype);
  if (!r.ok()) return {};
  return {r.b.op(ops::kPow, {base, exponent})};
}

// --- cast: the type is that of the output; the order of dimensions in memory is not a matter of
// the graph's logical shapes

Result<KernelCall> emit_cast(const Node& node) {
  Dims order;
  for (int64_t d = 0; d < node.result()->rank(); ++d) order.emplace_back(d);
  return call_of(node, "dim_order_ops::_to_dim_order_copy.out",
                 {tensor(node.operand(0)), flag(false), dims(std::move(order))});
}

Values raise_cast(Raising& r) { return {r.cast(r.tensor(0), r.out().dtype)}; }

Values raise_cast_aten(Raising& r) { return {r.cast(r.tensor(0), r.out().dtype)}; }

Values raise_identity(Raising& r) { return {r.cast(r.tensor(0), r.out().dtype)}; }

// Of the first operand only shape and type count; the output has them.
Values raise_copy(Raising& r) {
  const Value* self = r.tensor(0);
  Value* source = r.cast(r.tensor(1), r.out().dtype);
  if (!r.ok()) return {};
  if (source->shape() == self->shape()) return {source};
  return {r.b.op(ops::kExpand, {source}, {{"size", Dims(self->shape())}})};
}

// --- add, sub: other * alpha; the operator has no factor

Values raise_add(Raising& r) {
  return binary(r, ops::kAdd, r.tensor(0), scaled(r, r.tensor(1), 2));
}

Values raise_add_scalar(Raising& r) {
  return binary(r, ops::kAdd, r.tensor(0), scaled(r, r.scalar(1, r.out().dtype), 2));
}

Values raise_sub(Raising& r) {
  return binary(r, ops::kSub, r.tensor(0), scaled(r, r.tensor(1), 2));
}

Values raise_sub_scalar(Raising& r) {
  return binary(r, ops::kSub, r.tensor(0), scaled(r, r.scalar(1, r.out().dtype), 2));
}

Values raise_rsub_scalar(Raising& r) {
  Value* self = scaled(r, r.cast(r.tensor(0), r.out().dtype), 2);
  return binary(r, ops::kSub, r.scalar(1, r.out().dtype), self);
}

Values raise_div_mode(Raising& r) {
  const DType dtype = r.out().dtype;
  Value* self = r.cast(r.tensor(0), dtype);
  const bool number = r.size() > 1 && !std::holds_alternative<Value*>(r.call.args[1]);
  Value* other = number ? r.scalar(1, dtype) : r.cast(r.tensor(1), dtype);
  if (r.is_none(2)) return r.ok() ? Values{r.b.op(ops::kDiv, {self, other})} : Values{};
  const std::string mode = r.text(2);
  if (!r.ok()) return {};
  if (mode == "floor") return {r.b.op(ops::kFloorDivide, {self, other})};
  if (mode == "trunc" && is_float(dtype))
    return {r.b.op(ops::kTrunc, {r.b.op(ops::kDiv, {self, other})})};
  r.refuse(cat("rounding mode \"", printable(mode), "\" for ", name(dtype)));
  return {};
}

Values raise_masked_fill(Raising& r) {
  Value* self = r.tensor(0);
  Value* mask = r.cast(r.tensor(1), DType::kBool);
  if (!r.ok()) return {};
  return {r.b.op(ops::kWhere, {mask, r.scalar(2, self->dtype()), self})};
}

}  // namespace downhaul::edge

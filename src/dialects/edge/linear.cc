#include "base/strings.h"
#include "dialects/edge/functions.h"

// Matrix products. The stock runtime has fast code for linear, mm and bmm; addmm runs a plain loop.
namespace downhaul::edge {

Result<KernelCall> emit_linear(const Node& node) {
  if (node.b("weight_transposed"))
    return no_kernel(node, "aten::linear.out takes the weight as [out, in]");
  const Value* bias = node.operand("bias");
  if (bias != nullptr && bias->rank() != 1) return no_kernel(node, "bias has not rank 1");
  if (node.operand(0)->rank() < 2) return no_kernel(node, "the input is no matrix");
  return call_of(node, "aten::linear.out",
                 {tensor(node.operand(0)), tensor(node.operand(1)), tensor(node.operand("bias"))});
}

Values raise_linear(Raising& r) {
  Value* input = r.tensor(0);
  Value* weight = r.tensor(1);
  Value* bias = r.tensor_or_null(2);
  if (!r.ok()) return {};
  return {r.b.op(ops::kLinear, {input, weight, bias})};
}

Result<KernelCall> emit_linear_transposed(const Node& node) {
  if (!node.b("weight_transposed") || node.operand(0)->rank() != 2)
    return no_kernel(node, "a transposed weight and an input that is no matrix");
  if (node.operand("bias") == nullptr)
    return call_of(node, "aten::mm.out", {tensor(node.operand(0)), tensor(node.operand(1))});
  return call_of(node, "aten::addmm.out",
                 {tensor(node.operand("bias")), tensor(node.operand(0)), tensor(node.operand(1)),
                  integer(1), integer(1)});
}

Values raise_mm(Raising& r) {
  Value* a = r.tensor(0);
  Value* b = r.tensor(1);
  if (!r.ok()) return {};
  if (b->is_constant())
    return {r.b.op(ops::kLinear, {a, b, nullptr}, {{"weight_transposed", true}})};
  return {r.b.op(ops::kMatmul, {a, b})};
}

Values raise_addmm(Raising& r) {
  // bias * beta + (a b) * alpha
  Value* bias = r.tensor(0);
  Value* a = r.tensor(1);
  Value* b = r.tensor(2);
  const double beta = r.number(3), alpha = r.number(4);
  if (!r.ok()) return {};
  if (beta == 1 && alpha == 1 && bias->rank() == 1 && b->rank() == 2 && bias->dim(0) == b->dim(1))
    return {r.b.op(ops::kLinear, {a, b, bias}, {{"weight_transposed", true}})};
  Value* product = r.b.op(ops::kMatmul, {a, b});
  if (alpha != 1) product = r.b.op(ops::kMul, {product, r.scalar(4, a->dtype())});
  if (beta != 1) bias = r.b.op(ops::kMul, {bias, r.scalar(3, a->dtype())});
  return {r.b.op(ops::kAdd, {product, bias})};
}

Result<KernelCall> emit_matmul(const Node& node) {
  const Value* a = node.operand(0);
  const Value* b = node.operand(1);
  if (node.b("transpose_self") || node.b("transpose_other"))
    return no_kernel(node, "no kernel transposes an operand");
  if (a->rank() == 2 && b->rank() == 2)
    return call_of(node, "aten::mm.out", {tensor(node.operand(0)), tensor(node.operand(1))});
  if (a->rank() != 3 || b->rank() != 3 || !(a->dim(0) == b->dim(0)))
    return no_kernel(node, cat("aten::bmm.out takes two tensors of rank 3 and equal batch, not ",
                               a->type().str(), " and ", b->type().str()));
  return call_of(node, "aten::bmm.out", {tensor(node.operand(0)), tensor(node.operand(1))});
}

Values raise_bmm(Raising& r) {
  Value* a = r.tensor(0);
  Value* b = r.tensor(1);
  if (!r.ok()) return {};
  return {r.b.op(ops::kMatmul, {a, b})};
}

}  // namespace downhaul::edge

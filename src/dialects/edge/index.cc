#include "dialects/edge/functions.h"

// Kernels that take a list of optional index tensors.
namespace downhaul::edge {
namespace {

/// The members of argument i as integer indices; trailing absent ones are dropped.
Values indices(Raising& r, size_t i) {
  Values out = r.tensors(i);
  while (!out.empty() && out.back() == nullptr) out.pop_back();
  for (const Value* v : out)
    if (v != nullptr && (v->dtype() == DType::kBool || v->dtype() == DType::kU8))
      r.refuse("a bool index: the size of the result depends on the data");
  return out;
}

Status check_indices(const Node& node) {
  for (const Value* v : node.list())
    if (v != nullptr && v->dtype() != DType::kI64 && v->dtype() != DType::kI32)
      return no_kernel(node, "indices that are neither i32 nor i64");
  return {};
}

}  // namespace

Result<KernelCall> emit_index(const Node& node) {
  DH_TRY(check_indices(node));
  return call_of(node, "aten::index.Tensor_out",
                 {tensor(node.operand(0)), Arg(TensorList{node.list(), true})});
}

Values raise_index(Raising& r) {
  Values operands = {r.tensor(0)};
  const Values list = indices(r, 1);
  if (!r.ok()) return {};
  if (list.empty()) return operands;
  operands.insert(operands.end(), list.begin(), list.end());
  return {r.b.op(ops::kIndex, std::move(operands))};
}

Result<KernelCall> emit_index_put(const Node& node) {
  DH_TRY(check_indices(node));
  return call_of(node, "aten::index_put.out",
                 {tensor(node.operand("self")), Arg(TensorList{node.list(), true}),
                  tensor(node.operand("values")), flag(node.b("accumulate"))});
}

Values raise_index_put(Raising& r) {
  Value* self = r.tensor(0);
  const Values list = indices(r, 1);
  Value* values = r.tensor(2);
  const bool accumulate = r.flag(3);
  if (!r.ok()) return {};
  Values operands = {self, r.cast(values, self->dtype())};
  operands.insert(operands.end(), list.begin(), list.end());
  return {r.b.op(ops::kIndexPut, std::move(operands), {{"accumulate", accumulate}})};
}

}  // namespace downhaul::edge

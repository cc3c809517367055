#include "dialects/edge/functions.h"

// Normalisations: their kernels also return statistics, which no operator of the graph has.
namespace downhaul::edge {

Result<KernelCall> emit_layer_norm(const Node& node) {
  const Ints& normalized = node.ints("normalized_shape");
  KernelCall call =
      call_of(node, "aten::native_layer_norm.out",
              {tensor(node.operand("input")), ints(normalized), tensor(node.operand("weight")),
               tensor(node.operand("bias")), number(node.f("eps"))});
  Shape statistics = node.operand("input")->shape();
  for (size_t i = 0; i < normalized.size(); ++i) statistics[statistics.size() - 1 - i] = 1;
  const TensorType type{node.result()->dtype(), std::move(statistics)};
  call.outs.push_back(type);
  call.outs.push_back(type);
  return call;
}

Values raise_layer_norm(Raising& r) {
  Value* input = r.tensor(0);
  const Ints normalized = r.ints(1);
  Value* weight = r.tensor_or_null(2);
  Value* bias = r.tensor_or_null(3);
  const double eps = r.number(4);
  if (!r.ok()) return {};
  return {r.b.op(ops::kLayerNorm, {input, weight, bias},
                 {{"normalized_shape", normalized}, {"eps", eps}})};
}

Result<KernelCall> emit_batch_norm(const Node& node) {
  constexpr double kMomentum = 0.1;  // torch's default; not read at inference
  KernelCall call =
      call_of(node, "aten::_native_batch_norm_legit_no_training.out",
              {tensor(node.operand("input")), tensor(node.operand("weight")),
               tensor(node.operand("bias")), tensor(node.operand("mean")),
               tensor(node.operand("var")), number(kMomentum), number(node.f("eps"))});
  const TensorType nothing{node.result()->dtype(), {0}};
  call.outs.push_back(nothing);
  call.outs.push_back(nothing);
  return call;
}

Values raise_batch_norm(Raising& r) {
  Value* input = r.tensor(0);
  Value* weight = r.tensor_or_null(1);
  Value* bias = r.tensor_or_null(2);
  Value* mean = r.tensor(3);
  Value* var = r.tensor(4);
  const double eps = r.number(6);
  if (!r.ok()) return {};
  return {r.b.op(ops::kBatchNorm, {input, weight, bias, mean, var}, {{"eps", eps}})};
}

Result<KernelCall> emit_group_norm(const Node& node) {
  const Value* input = node.operand("input");
  Dim inner = 1;
  for (int64_t d = 2; d < input->rank(); ++d) inner = inner * input->dim(d);
  const int64_t groups = node.i("num_groups");
  KernelCall call =
      call_of(node, "aten::native_group_norm.out",
              {tensor(node.operand("input")), tensor(node.operand("weight")),
               tensor(node.operand("bias")), integer(input->dim(0)), integer(input->dim(1)),
               integer(inner), integer(groups), number(node.f("eps"))});
  const TensorType statistics{node.result()->dtype(), {input->dim(0), groups}};
  call.outs.push_back(statistics);
  call.outs.push_back(statistics);
  return call;
}

Values raise_group_norm(Raising& r) {
  Value* input = r.tensor(0);
  Value* weight = r.tensor_or_null(1);
  Value* bias = r.tensor_or_null(2);
  const int64_t groups = r.integer(6);
  const double eps = r.number(7);
  if (!r.ok()) return {};
  return {r.b.op(ops::kGroupNorm, {input, weight, bias}, {{"num_groups", groups}, {"eps", eps}})};
}

}  // namespace downhaul::edge

// linear ↔ XNNFullyConnected, matmul ↔ XNNBatchMatrixMultiply.
#include "base/strings.h"
#include "dialects/xnn/spelling.h"
#include "ops/ops.h"

namespace downhaul::xnn {
namespace {
constexpr uint32_t kTransposeWeights = 1;  // XNN_FLAG_TRANSPOSE_WEIGHTS, XNN_FLAG_TRANSPOSE_B
}

// linear: y = x · wᵀ + bias. The filter is stored [out, in], or [in, out] with flag 1, as the IR
// has it in `weight_transposed`: its bytes never move.
std::string refuse_linear(const Node& node) {
  if (!node.operand("weight")->is_constant()) return "the weight of a linear must be constant";
  const Value* bias = node.operand("bias");
  if (bias != nullptr && !bias->is_constant()) return "the bias of a linear must be constant";
  if (node.operand(0)->rank() < 2) return "the input of a linear must have two dimensions";
  return "";
}

void emit_linear(const Node& node, PayloadBuilder& out) {
  const uint32_t x = out.use(node.operand("input"));
  const uint32_t w = out.use_packed(node.operand("weight"));
  const uint32_t bias = out.use_packed(node.operand("bias"));
  XnnNode& xnn = out.add(XnnNodeKind::kFullyConnected, {x, w, bias}, out.define(node.result()));
  xnn.flags = node.b("weight_transposed") ? kTransposeWeights : 0;
}

Result<Value*> raise_linear(RaiseCall& call) {
  DH_ASSIGN(Value * x, call.input(0));
  DH_ASSIGN(Value * w, call.input(1));
  DH_ASSIGN(Value * bias, call.input(2));
  return call.b.op(ops::kLinear, {x, w, bias},
                   {{"weight_transposed", (call.node().flags & kTransposeWeights) != 0}});
}

// matmul over equal leading dimensions, at least one.
std::string refuse_matmul(const Node& node) {
  if (node.b("transpose_self")) return "only the second operand of a matmul may be transposed";
  const Value* a = node.operand(0);
  const Value* b = node.operand(1);
  if (a->rank() < 3 || a->rank() != b->rank()) {
    return cat("matmul needs two operands of the same rank, at least 3, found ", a->rank(), " and ",
               b->rank());
  }
  for (int64_t i = 0; i + 2 < a->rank(); ++i) {
    if (!(a->dim(i) == b->dim(i))) {
      return cat("matmul needs equal leading sizes, found ", a->dim(i).str(), " and ",
                 b->dim(i).str());
    }
  }
  return "";
}

void emit_matmul(const Node& node, PayloadBuilder& out) {
  const uint32_t a = out.use(node.operand(0));
  const uint32_t b = out.use(node.operand(1));
  XnnNode& xnn = out.add(XnnNodeKind::kBatchMatrixMultiply, {a, b}, out.define(node.result()));
  xnn.flags = node.b("transpose_other") ? kTransposeWeights : 0;
}

Result<Value*> raise_matmul(RaiseCall& call) {
  DH_ASSIGN(Value * a, call.input(0));
  DH_ASSIGN(Value * b, call.input(1));
  return call.b.op(ops::kMatmul, {a, b},
                   {{"transpose_other", (call.node().flags & kTransposeWeights) != 0}});
}

}  // namespace downhaul::xnn

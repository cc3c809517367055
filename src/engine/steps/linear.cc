#include "engine/steps/steps.h"
#include "kernels/gemm/bf16.h"
#include "kernels/gemm/gemm.h"
#include "ops/ops.h"

// linear: y = x Wt + b as one matrix product of all rows. Weights are packed once, unless there are
// so few rows that reading them is all the work: then they are read where they lie. In bf16 they
// are always packed: half the bytes are read.
namespace downhaul::engine {
namespace {

struct Shape2 {
  int64_t m, n, k;
};

Shape2 shape_of_linear(PlanBuilder& plan, const Node& node) {
  const Sizes& w = plan.sizes(node.operand("weight"));
  const bool transposed = node.b("weight_transposed");
  const int64_t k = transposed ? w[0] : w[1];
  const int64_t n = transposed ? w[1] : w[0];
  const int64_t count = plan.elements(node.result());
  return {n == 0 ? 0 : count / n, n, k};
}

}  // namespace

bool takes_linear(PlanBuilder& plan, const Node& node) {
  if (!node.is(ops::kLinear) || node.result()->dtype() != DType::kF32) return false;
  const Value* weight = node.operand("weight");
  const Value* bias = node.operand("bias");
  return weight->is_constant() && weight->rank() == 2 && (bias == nullptr || bias->is_constant()) &&
         plan.elements(node.result()) > 0;
}

void plan_linear(PlanBuilder& plan, const Fusion& f) {
  const Node& node = f.root();
  const auto [m, n, k] = shape_of_linear(plan, node);
  const bool transposed = node.b("weight_transposed");
  const Tensor& weight = node.operand("weight")->constant();
  const Value* bias_value = node.operand("bias");
  const auto* w = reinterpret_cast<const float*>(plan.constant_data(weight));
  const float* bias =
      bias_value == nullptr
          ? nullptr
          : reinterpret_cast<const float*>(plan.constant_data(bias_value->constant()));

  Ref a;
  int64_t lda = k;
  const View input = plan.view(node.operand("input"));
  const auto rows = reshape_view(input, {m, k});
  if (rows && (k == 1 || rows->strides[1] == 1)) {
    a = rows->ref;
    if (m > 1) lda = rows->strides[0];
  } else {
    a = plan.dense(node.operand("input"));
  }
  Ref operand;
  kernels::Epilogue epilogue = f.epilogue;
  if (f.operand != nullptr) {
    operand = plan.dense(f.operand);
    epilogue.operand_stride = n;
  }
  const Ref c = plan.result(f.result());
  const auto finish = [operand](kernels::Epilogue e, RunContext& run) {
    if (operand.buffer >= 0) e.operand = run.at<const float>(operand);
    return e;
  };
  const kernels::BSource source = {
      .data = w, .n_stride = transposed ? 1 : k, .k_stride = transposed ? n : 1};
  const Tensor companion = bias_value == nullptr ? Tensor() : bias_value->constant();
  if (plan.precision() == Precision::kBf16) {
    const void* packed = plan.weights().packed(
        weight, companion, transposed ? "gemm bf16 kn" : "gemm bf16 nk",
        kernels::packed_bf16_bytes(n, k), plan.pool(), [&, n = n, k = k](float* to) {
          kernels::pack_b_bf16(source, n, k, bias, to, plan.pool());
        });
    const Ref scratch = plan.scratch(kernels::gemm_bf16_scratch_bytes(m, k));
    plan.emit(
        "gemm bf16" + f.kernel, f.nodes,
        [=, m = m, n = n, k = k](RunContext& run) {
          kernels::gemm_bf16(run.at<const float>(a), lda, m, packed, n, k, run.at<float>(c), n,
                             finish(epilogue, run), run.at<void>(scratch), run.pool);
        },
        static_cast<int64_t>(weight.num_bytes() / 2));
    return;
  }
  if (m <= kernels::kMaxRows) {
    plan.emit(
        "gemm rows" + f.kernel, f.nodes,
        [=, m = m, n = n, k = k](RunContext& run) {
          const auto* rows_a = run.at<const float>(a);
          auto* result = run.at<float>(c);
          const kernels::Epilogue e = finish(epilogue, run);
          if (transposed) {
            kernels::gemm_rows_kn(rows_a, lda, m, w, n, n, k, bias, result, n, e, run.pool);
          } else {
            kernels::gemm_rows_nk(rows_a, lda, m, w, k, n, k, bias, result, n, e, run.pool);
          }
        },
        static_cast<int64_t>(weight.num_bytes()));
    return;
  }
  const float* packed = plan.weights().packed(
      weight, companion, transposed ? "gemm kn" : "gemm nk", kernels::packed_b_bytes(n, k),
      plan.pool(),
      [&, n = n, k = k](float* to) { kernels::pack_b(source, n, k, bias, to, plan.pool()); });
  plan.emit(
      "gemm" + f.kernel, f.nodes,
      [=, m = m, n = n, k = k](RunContext& run) {
        kernels::gemm(run.at<const float>(a), lda, m, packed, n, k, run.at<float>(c), n,
                      finish(epilogue, run), run.pool);
      },
      static_cast<int64_t>(weight.num_bytes()));
}

bool is_fusion_root(PlanBuilder& plan, const Node& node) {
  return takes_linear(plan, node) || takes_conv2d(plan, node);
}

void plan_fused(PlanBuilder& plan, const Fusion& fusion) {
  if (fusion.root().is(ops::kLinear)) {
    plan_linear(plan, fusion);
  } else {
    plan_conv2d(plan, fusion);
  }
}

}  // namespace downhaul::engine

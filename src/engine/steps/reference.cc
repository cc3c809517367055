#include <algorithm>

#include "base/strings.h"
#include "engine/steps/steps.h"
#include "ops/evaluate.h"

// Any operator, by the kernel that defines it: slow, and it allocates while it runs.
namespace downhaul::engine {

void plan_reference(PlanBuilder& plan, const Node& node) {
  struct Operand {
    Ref ref;
    DType dtype = DType::kF32;
    Sizes sizes;
    bool present = false;
  };
  std::vector<Operand> operands;
  for (const Value* value : node.operands()) {
    Operand operand;
    if (value != nullptr) {
      operand = {plan.dense(value), value->dtype(), plan.sizes(value), true};
    }
    operands.push_back(std::move(operand));
  }
  std::vector<Ref> results;
  for (int r = 0; r < node.num_results(); ++r) results.push_back(plan.result(node.result(r)));
  plan.emit(cat("reference ", node.op_name()), {&node},
            [&node, operands, results](RunContext& run) {
              std::vector<Tensor> tensors;
              tensors.reserve(operands.size());
              std::vector<const Tensor*> pointers;
              for (const Operand& o : operands) {
                if (!o.present) {
                  pointers.push_back(nullptr);
                  continue;
                }
                Tensor t(o.dtype, o.sizes);
                std::copy_n(run.at<const uint8_t>(o.ref), t.num_bytes(), t.mutable_data<uint8_t>());
                tensors.push_back(std::move(t));
                pointers.push_back(&tensors.back());
              }
              auto evaluated = evaluate_node(node, pointers);
              if (!evaluated.ok()) {
                run.fail(std::move(evaluated).status());
                return;
              }
              for (size_t r = 0; r < results.size(); ++r) {
                const Bytes bytes = (*evaluated)[r].bytes();
                std::copy(bytes.begin(), bytes.end(), run.at<uint8_t>(results[r]));
              }
            });
}

}  // namespace downhaul::engine

#include "engine/fusion.h"

#include <limits>
#include <optional>

#include "base/strings.h"
#include "ops/ops.h"

namespace downhaul::engine {
namespace {

using kernels::Activation;
using kernels::Combine;
using kernels::Epilogue;

bool set_activation(const Node& node, Epilogue& e) {
  const auto plain = [&](Activation activation) {
    e.activation = activation;
    return true;
  };
  if (node.is(ops::kClamp)) {
    if (node.has_attr("min")) e.lo = static_cast<float>(node.f("min"));
    if (node.has_attr("max")) e.hi = static_cast<float>(node.f("max"));
    return plain(Activation::kClamp);
  }
  if (node.is(ops::kGelu)) {
    return plain(node.s("approximate") == "tanh" ? Activation::kGeluTanh : Activation::kGelu);
  }
  if (node.is(ops::kLeakyRelu)) {
    e.lo = static_cast<float>(node.f("negative_slope"));
    return plain(Activation::kLeakyRelu);
  }
  if (node.is(ops::kHardswish)) return plain(Activation::kHardSwish);
  if (node.is(ops::kHardsigmoid)) return plain(Activation::kHardSigmoid);
  if (node.is(ops::kSigmoid)) return plain(Activation::kSigmoid);
  if (node.is(ops::kSilu)) return plain(Activation::kSilu);
  if (node.is(ops::kTanh)) return plain(Activation::kTanh);
  return false;
}

/// The only reader of the value, reshapes skipped; null when there are several or it is an output.
const Node* only_reader(const Value* value, bool through_reshapes,
                        std::vector<const Node*>& reshapes) {
  for (;;) {
    if (!value->has_one_use() || value->num_output_uses() != 0) return nullptr;
    const Node* user = value->uses()[0].node;
    if (!user->is(ops::kReshape) || !through_reshapes) return user;
    reshapes.push_back(user);
    value = user->result();
  }
}

bool comes_from(const Value* value, const Value* source) {
  while (value != source && value->producer() != nullptr && value->producer()->is(ops::kReshape)) {
    value = value->producer()->operand(0);
  }
  return value == source;
}

}  // namespace

Fusion fuse_epilogue(PlanBuilder& plan, const Node& root, bool through_reshapes,
                     const std::unordered_set<const Node*>& taken) {
  Fusion f;
  f.nodes.push_back(&root);
  if (root.result()->dtype() != DType::kF32) return f;
  for (;;) {
    const Value* value = f.result();
    std::vector<const Node*> reshapes;
    const Node* next = only_reader(value, through_reshapes, reshapes);
    if (next == nullptr || next->num_results() != 1 || taken.contains(next)) return f;
    if (f.epilogue.activation == Activation::kNone && f.epilogue.combine != Combine::kAddAfter &&
        f.epilogue.combine != Combine::kMultiplyAfter && set_activation(*next, f.epilogue)) {
      f.kernel += cat(" + ", next->op_name());
    } else if (f.epilogue.combine == Combine::kNone &&
               (next->is(ops::kAdd) || next->is(ops::kMul))) {
      const Value* last = reshapes.empty() ? value : reshapes.back()->result();
      const Value* other = next->operand(0) == last ? next->operand(1) : next->operand(0);
      if (other == last || other->dtype() != DType::kF32 || comes_from(other, value) ||
          plan.sizes(other) != plan.sizes(last) || plan.sizes(next->result()) != plan.sizes(last)) {
        return f;
      }
      const bool is_add = next->is(ops::kAdd);
      if (!is_add) {
        f.epilogue.combine = Combine::kMultiplyAfter;
      } else {
        f.epilogue.combine =
            f.epilogue.activation == Activation::kNone ? Combine::kAddBefore : Combine::kAddAfter;
      }
      f.operand = other;
      f.kernel += cat(" + ", next->op_name());
    } else {
      return f;
    }
    f.nodes.insert(f.nodes.end(), reshapes.begin(), reshapes.end());
    f.nodes.push_back(next);
  }
}

}  // namespace downhaul::engine

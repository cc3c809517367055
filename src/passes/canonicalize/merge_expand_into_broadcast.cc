// Elementwise operators, matmul and attention (its mask) broadcast by themselves: an expanded
// operand is used unexpanded wherever the result keeps its shape.
#include <algorithm>

#include "ops/ops.h"
#include "passes/elementwise.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

bool broadcasts(const Node& node, int operand) {
  if (node.is(ops::kAttention)) return operand == 3;
  return node.is(ops::kMatmul) || (node.operands().size() > 1 && is_elementwise(node));
}

/// Broadcast of `shapes` by torch's rule; nullopt when they do not fit.
std::optional<Shape> broadcast(const std::vector<const Shape*>& shapes) {
  Shape out;
  for (const Shape* shape : shapes) {
    if (shape->size() > out.size()) out.insert(out.begin(), shape->size() - out.size(), Dim(1));
    const size_t shift = out.size() - shape->size();
    for (size_t d = 0; d < shape->size(); ++d) {
      Dim& to = out[shift + d];
      if (to == (*shape)[d] || (*shape)[d] == Dim(1)) continue;
      if (!(to == Dim(1))) return std::nullopt;
      to = (*shape)[d];
    }
  }
  return out;
}

/// The source of an expand that operand `i` can do without. What matmul multiplies must stay.
Value* unexpanded(const Node& node, int i) {
  if (!broadcasts(node, i) || !is_op(node.operand(i), ops::kExpand)) return nullptr;
  Value* source = node.operand(i)->producer()->operand(0);
  const Shape& to = node.operand(i)->shape();
  if (node.is(ops::kAttention)) {
    // A mask broadcasts against [.., S, T]; its rank may only stay.
    return source->rank() == node.operand(i)->rank() ? source : nullptr;
  }
  if (node.is(ops::kMatmul)) {
    if (source->rank() < 2) return nullptr;
    for (int64_t d = 1; d <= 2; ++d) {
      if (!(source->dim(source->rank() - d) == to[to.size() - static_cast<size_t>(d)]))
        return nullptr;
    }
    const Value* other = node.operand(1 - i);
    Shape batch(source->shape().begin(), source->shape().end() - 2);
    Shape other_batch(other->shape().begin(), other->shape().end() - 2);
    const Shape result(node.result()->shape().begin(), node.result()->shape().end() - 2);
    const auto found = broadcast({&batch, &other_batch});
    return found && *found == result ? source : nullptr;
  }
  std::vector<const Shape*> shapes;
  for (int o = 0; o < static_cast<int>(node.operands().size()); ++o) {
    shapes.push_back(o == i ? &source->shape() : &node.operand(o)->shape());
  }
  const auto found = broadcast(shapes);
  return found && *found == node.result()->shape() ? source : nullptr;
}

std::vector<Value*> apply(Node& node, Builder& b) {
  for (int i = 0; i < static_cast<int>(node.operands().size()); ++i) {
    Value* source = unexpanded(node, i);
    if (source == nullptr) continue;
    std::vector<Value*> operands = node.operands();
    operands[static_cast<size_t>(i)] = source;
    return {b.like(node, operands)};
  }
  return {};
}

}  // namespace

const Rewrite kMergeExpandIntoBroadcast = {
    .name = "merge_expand_into_broadcast",
    .apply = apply,
};

}  // namespace downhaul::rewrites

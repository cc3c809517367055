// f32 → f32 whose every number is one that f16 has: what a device that stores half floats between
// operations computes, with sums inside an operator in f32.
//
// Behind every operator that computes stands a pair of casts, to f16 and back: to nearest even,
// infinite beyond 65504, subnormals kept. Operators that only move or choose elements need none.
// Constants, float attributes and inputs are rounded too. An attribute that would vanish becomes
// the smallest number instead, as Core ML's converters do with an epsilon of 1e-12.
#include <cmath>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/precision/attributes.h"

namespace downhaul {

namespace {

constexpr double kSmallest = 0x1p-24;

double rounded(double v) {
  const double r = half_to_float(float_to_half(static_cast<float>(v)));
  return r == 0 && v != 0 ? std::copysign(kSmallest, v) : r;
}

bool has_float_attribute(const Node& node) {
  for (const SchemaArg& arg : node.schema().args) {
    if (arg.kind == ArgKind::kFloat) return true;
  }
  return false;
}

/// False when each element of the results is one of the operands'.
bool may_need_rounding(const Node& node) {
  if (node.op().accuracy != Accuracy::kExact || has_float_attribute(node)) return true;
  return node.is(ops::kCast) || node.is(ops::kArange) || node.is(ops::kDimScalar) ||
         node.is(ops::kDequantize);
}

/// The tensor itself when nothing changes.
Tensor rounded(const Tensor& tensor) {
  Tensor out = tensor.cast(DType::kF16).cast(DType::kF32);
  return same_bytes(out, tensor) ? tensor : out;
}

class Rounder {
 public:
  explicit Rounder(Graph& graph) : graph_(graph) {}

  Result<int> run() {
    for (Value* constant : graph_.constants()) {
      if (constant->dtype() == DType::kF32 && constant->num_uses() > 0) round_constant(constant);
    }
    Node* first = graph_.first_node();
    for (Value* input : graph_.inputs()) DH_TRY(round_value(input, first));
    for (Value* state : graph_.states()) DH_TRY(round_value(state, first));
    for (Node* node = first; node != nullptr;) {
      Node* next = node->next();
      DH_TRY(visit(*node, next));
      node = next;
    }
    graph_.remove_dead();
    return count_;
  }

 private:
  void round_constant(Value* constant) {
    const Tensor tensor = rounded(constant->constant());
    if (tensor.storage() == constant->constant().storage()) return;
    graph_.replace_all_uses(constant, graph_.add_constant(tensor, constant->name()));
    ++count_;
  }

  Status round_value(Value* value, Node* before) {
    if (value->dtype() != DType::kF32 || value->num_uses() == 0) return {};
    DH_ASSIGN(Node * narrow, graph_.insert(before, ops::kCast, {value}, {{"dtype", DType::kF16}}));
    DH_ASSIGN(Node * wide,
              graph_.insert(before, ops::kCast, {narrow->result()}, {{"dtype", DType::kF32}}));
    if (const Node* maker = value->producer()) {
      narrow->add_origins(maker->origins());
      wide->add_origins(maker->origins());
    }
    graph_.replace_all_uses(value, wide->result());
    graph_.set_operand(narrow, 0, value);
    ++count_;
    return {};
  }

  /// `next`: the node behind it.
  Status visit(Node& node, Node* next) {
    if (!may_need_rounding(node) || is_exact_cast(node)) return {};
    NamedAttrs changed;
    bool is_f32 = false;
    for (int r = 0; r < node.num_results(); ++r) {
      is_f32 = is_f32 || node.result(r)->dtype() == DType::kF32;
    }
    if (!is_f32) return {};
    for (const SchemaArg& arg : node.schema().args) {
      if (arg.kind != ArgKind::kFloat || !node.has_attr(arg.name)) continue;
      const double v = node.f(arg.name);
      if (rounded(v) != v) changed.emplace_back(arg.name, rounded(v));
    }
    Node* previous = node.previous();
    if (!changed.empty()) DH_TRY(replace_node(graph_, node, changed));
    Node* current = previous == nullptr ? graph_.first_node() : previous->next();
    for (int r = 0; r < current->num_results(); ++r) DH_TRY(round_value(current->result(r), next));
    return {};
  }

  /// From a type whose numbers f16 has.
  static bool is_exact_cast(const Node& node) {
    if (!node.is(ops::kCast)) return false;
    const DType from = node.operand(0)->dtype();
    return from == DType::kF16 || from == DType::kBool || from == DType::kI8 || from == DType::kU8;
  }

  Graph& graph_;
  int count_ = 0;
};

}  // namespace

Result<int> round_to_f16(Graph& graph) { return Rounder(graph).run(); }

}  // namespace downhaul

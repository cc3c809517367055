// f16 → f32: a program of half floats computes in f32 with the same weights.
//
// Constants are converted, casts between the two types go (they rounded; nothing rounds now) unless
// the program casts to half and straight back, and whatever an operator gave in f16 it gives in
// f32. The interface stays: inputs, outputs and states of f16 keep their type, behind a cast.
#include <algorithm>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/precision/attributes.h"

namespace downhaul {

namespace {

bool has_f16_result(const Node& node) {
  for (int r = 0; r < node.num_results(); ++r) {
    if (node.result(r)->dtype() == DType::kF16) return true;
  }
  return false;
}

class Widener {
 public:
  explicit Widener(Graph& graph) : graph_(graph) {}

  Result<int> run() {
    for (const Output& output : graph_.outputs()) outputs_.push_back(output.value->dtype());
    for (Value* constant : graph_.constants()) {
      if (constant->dtype() == DType::kF16 && constant->num_uses() > 0) widen_constant(constant);
    }
    for (Value* input : graph_.inputs()) DH_TRY(widen_interface(input));
    for (Value* state : graph_.states()) DH_TRY(widen_interface(state));
    for (Node* node = graph_.first_node(); node != nullptr;) {
      Node* next = node->next();
      if (has_f16_result(*node) || is_cast_to_same(*node)) DH_TRY(widen_node(*node));
      node = next;
    }
    DH_TRY(narrow_outputs());
    if (count_ > 0) {
      graph_.remove_dead();
      DH_TRY(graph_.reinfer());
    }
    return count_;
  }

 private:
  void widen_constant(Value* constant) {
    Value* wide = graph_.add_constant(constant->constant().cast(DType::kF32), constant->name());
    graph_.replace_all_uses(constant, wide);
    ++count_;
  }

  Result<Value*> cast(Value* value, DType dtype, Node* before) {
    DH_ASSIGN(Node * node, graph_.insert(before, ops::kCast, {value}, {{"dtype", dtype}}));
    return node->result();
  }

  /// Everyone but a cast reads `value` in f32.
  Status widen_interface(Value* value) {
    if (value->dtype() != DType::kF16 || value->num_uses() == 0) return {};
    DH_ASSIGN(Value * wide, cast(value, DType::kF32, graph_.first_node()));
    graph_.replace_all_uses(value, wide);
    graph_.set_operand(wide->producer(), 0, value);
    ++count_;
    return {};
  }

  /// A cast that has nothing left to do. Those that this pass made stay: their operand is f16.
  bool is_cast_to_same(const Node& node) const {
    return node.is(ops::kCast) && node.operand(0)->dtype() == node.result()->dtype();
  }

  /// To half and straight back: a rounding that the program asks for. It stays; others read what
  /// was rounded.
  bool keep_rounding(Node& node) {
    const std::vector<Use> uses = node.result()->uses();
    const auto goes_back = [](const Use& use) {
      const DType to = use.node->is(ops::kCast) ? use.node->result()->dtype() : DType::kF16;
      return to == DType::kF32 || to == DType::kF64;
    };
    if (std::none_of(uses.begin(), uses.end(), goes_back)) return false;
    for (const Use& use : uses) {
      if (goes_back(use)) continue;
      graph_.set_operand(use.node, use.operand, node.operand(0));
      ++count_;
    }
    return true;
  }

  Status widen_node(Node& node) {
    const bool rounds = node.is(ops::kCast) && node.operand(0)->dtype() == DType::kF32;
    if (rounds && keep_rounding(node)) return {};
    ++count_;
    if (rounds) {
      graph_.replace_all_uses(node.result(), node.operand(0));
      graph_.erase(&node);
      return {};
    }
    NamedAttrs changed;
    for (const SchemaArg& arg : node.schema().args) {
      if (arg.kind == ArgKind::kDType && node.has_attr(arg.name) &&
          node.dtype(arg.name) == DType::kF16) {
        changed.emplace_back(arg.name, DType::kF32);
      }
    }
    return replace_node(graph_, node, changed);
  }

  Status narrow_outputs() {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Value* value = graph_.outputs()[i].value;
      if (outputs_[i] != DType::kF16 || value->dtype() == DType::kF16) continue;
      DH_ASSIGN(Value * narrow, cast(value, DType::kF16, nullptr));
      graph_.set_output(i, narrow);
    }
    const std::vector<StateUpdate> updates = graph_.state_updates();
    for (const StateUpdate& update : updates) {
      if (update.state->dtype() != DType::kF16 || update.value->dtype() == DType::kF16) continue;
      DH_ASSIGN(Value * narrow, cast(update.value, DType::kF16, nullptr));
      graph_.set_state_update(update.state, narrow);
    }
    return {};
  }

  Graph& graph_;
  std::vector<DType> outputs_;
  int count_ = 0;
};

}  // namespace

Result<int> widen_f16(Graph& graph) { return Widener(graph).run(); }

}  // namespace downhaul

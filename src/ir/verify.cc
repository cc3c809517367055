#include "ir/verify.h"

#include <algorithm>
#include <unordered_set>

#include "base/strings.h"

namespace downhaul {
namespace {

Status check_types(const Node& node) {
  auto types = node.op().infer(node);
  if (!types.ok()) return std::move(types).status();
  for (size_t i = 0; i < types->size(); ++i) {
    const TensorType& found = node.result(static_cast<int>(i))->type();
    if (found == (*types)[i]) continue;
    return invalid_graph(
        cat(node.op_name(), ": result ", i, " is ", found.str(), ", expected ", (*types)[i].str()));
  }
  return {};
}

}  // namespace

Status verify(const Graph& graph) {
  std::unordered_set<std::string_view> names;
  std::unordered_set<const Value*> defined;
  const auto define = [&](const Value* v) -> Status {
    if (!names.insert(v->name()).second) {
      return invalid_graph(cat("two values are named %", v->name()));
    }
    defined.insert(v);
    return {};
  };
  for (const Value* v : graph.inputs()) DH_TRY(define(v));
  for (const Value* v : graph.states()) DH_TRY(define(v));
  for (const Value* v : graph.constants()) DH_TRY(define(v));
  for (const auto& node : graph.nodes()) {
    const std::string place = cat("node %", node->result()->name(), " (", node->op_name(), ")");
    for (size_t i = 0; i < node->operands().size(); ++i) {
      const Value* operand = node->operands()[i];
      if (operand == nullptr) continue;
      if (!defined.contains(operand)) {
        return invalid_graph(
            cat(place, ": operand %", operand->name(), " is used before its definition"));
      }
      const auto& uses = operand->uses();
      const bool listed = std::any_of(uses.begin(), uses.end(), [&](const Use& u) {
        return u.node == node.get() && u.operand == static_cast<int>(i);
      });
      if (!listed)
        return invalid_graph(cat(place, ": operand %", operand->name(), " lists no use"));
    }
    DH_TRY(check_types(*node).with_context(place));
    for (int i = 0; i < node->num_results(); ++i) DH_TRY(define(node->result(i)));
  }
  for (const Output& output : graph.outputs()) {
    if (!defined.contains(output.value)) {
      return invalid_graph(cat("output '", output.name, "' is not defined in the graph"));
    }
  }
  for (const StateUpdate& update : graph.state_updates()) {
    if (!defined.contains(update.value)) {
      return invalid_graph(cat("update of %", update.state->name(), " is not defined"));
    }
    if (!(update.value->type() == update.state->type())) {
      return invalid_graph(cat("update of %", update.state->name(), " is ",
                               update.value->type().str(), ", expected ",
                               update.state->type().str()));
    }
  }
  return {};
}

}  // namespace downhaul

#include <unordered_map>

#include "base/strings.h"
#include "engine/plan.h"

namespace downhaul::engine {
namespace {

Result<Dim> fixed(const Dim& dim, const Bindings& bindings) {
  if (const auto size = dim.eval(bindings)) return Dim(*size);
  return invalid_argument(cat("size ", dim.str(), " has no value in this run"));
}

Result<Dims> fixed(const Dims& dims, const Bindings& bindings) {
  Dims out;
  for (const Dim& dim : dims) {
    DH_ASSIGN(const Dim size, fixed(dim, bindings));
    out.push_back(size);
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Graph>> specialize(const Graph& graph, const Bindings& bindings) {
  auto out = std::make_unique<Graph>();
  out->name = graph.name;
  out->origins = graph.origins;
  std::unordered_map<const Value*, Value*> made{{nullptr, nullptr}};
  for (const Value* input : graph.inputs()) {
    DH_ASSIGN(Dims shape, fixed(input->shape(), bindings));
    made[input] = out->add_input(input->name(), {input->dtype(), std::move(shape)});
  }
  for (const Value* constant : graph.constants()) {
    made[constant] = out->add_constant(constant->constant(), constant->name());
  }
  for (const Value* state : graph.states()) {
    made[state] = out->add_state(state->name(), state->constant());
  }
  for (const auto& node : graph.nodes()) {
    std::vector<Value*> operands;
    for (const Value* operand : node->operands()) operands.push_back(made.at(operand));
    NamedAttrs attrs;
    for (const SchemaArg& arg : node->schema().args) {
      if (arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorList) continue;
      Attr attr = node->attr(arg.name);
      if (const auto* dim = std::get_if<Dim>(&attr)) {
        DH_ASSIGN(attr, fixed(*dim, bindings));
      } else if (const auto* dims = std::get_if<Dims>(&attr)) {
        DH_ASSIGN(attr, fixed(*dims, bindings));
      }
      attrs.emplace_back(arg.name, std::move(attr));
    }
    auto inserted =
        out->insert(nullptr, node->op(), std::move(operands), attrs, node->result()->name());
    if (!inserted.ok()) return std::move(inserted).status().with_context(node->result()->name());
    (*inserted)->add_origins(node->origins());
    for (int r = 0; r < node->num_results(); ++r) made[node->result(r)] = (*inserted)->result(r);
  }
  for (const Output& output : graph.outputs()) {
    out->add_output(made.at(output.value), output.name);
  }
  for (const StateUpdate& update : graph.state_updates()) {
    out->set_state_update(made.at(update.state), made.at(update.value));
  }
  return out;
}

}  // namespace downhaul::engine

#include "dialects/xnn/raise.h"

#include <cmath>

#include "base/strings.h"
#include "dialects/xnn/one_to_one.h"
#include "dialects/xnn/raise_call.h"
#include "dialects/xnn/spelling.h"
#include "ops/ops.h"

namespace downhaul {
namespace xnn {
namespace {

Result<Value*> raise_node(RaiseCall& call) {
  const XnnNodeKind kind = call.node().kind;
  for (const OneToOneRow& row : one_to_one_rows()) {
    if (row.kind == kind) return raise_row(row, call);
  }
  for (const RaiseFunction& f : raise_table()) {
    if (f.kind == kind) return f.raise(call);
  }
  return unsupported("no operator for this node");
}

/// Applies a node's output range, if it has one.
Value* clamped(const XnnNode& node, Value* v, Builder& b) {
  if (v == nullptr || !info(node.kind).clamps) return v;
  const bool has_min = !std::isinf(node.output_min) || node.output_min > 0;
  const bool has_max = !std::isinf(node.output_max) || node.output_max < 0;
  if (!has_min && !has_max) return v;
  NamedAttrs attrs;
  if (has_min) attrs.push_back({"min", static_cast<double>(node.output_min)});
  if (has_max) attrs.push_back({"max", static_cast<double>(node.output_max)});
  return b.op(ops::kClamp, {v}, attrs);
}

}  // namespace
}  // namespace xnn

Result<std::vector<Value*>> raise_xnn_payload(const XnnGraph& graph, const XnnTensorLookup& lookup,
                                              const std::vector<Value*>& inputs, Builder& b) {
  if (inputs.size() != graph.input_ids.size()) {
    return invalid_file(
        cat("the payload has ", graph.input_ids.size(), " inputs, the call gives ", inputs.size()));
  }
  xnn::RaiseCall call(graph, lookup, b);
  for (size_t i = 0; i < inputs.size(); ++i) call.set_value(graph.input_ids[i], inputs[i]);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const XnnNode& node = graph.nodes[i];
    const auto where = [&] { return cat("payload node ", i, " (", info(node.kind).name, ")"); };
    call.set_node(node);
    // Handles are positions in the names that the file keeps, if it keeps any.
    const bool named = node.debug_handle < b.graph().origins.size();
    b.set_origins(named ? std::vector<int>{static_cast<int>(node.debug_handle)}
                        : std::vector<int>{});
    Result<Value*> raised = xnn::raise_node(call);
    if (!raised.ok()) return std::move(raised).status().with_context(where());
    Result<Value*> value = call.with_quantization(node.outputs[0], xnn::clamped(node, *raised, b));
    if (!value.ok()) return std::move(value).status().with_context(where());
    if (!b.status().ok()) {
      return invalid_file(cat(where(), ": ", b.status().message()));
    }
    call.set_value(node.outputs[0], *value);
  }
  b.set_origins({});
  std::vector<Value*> outputs;
  for (uint32_t id : graph.output_ids) {
    if (call.value(id) == nullptr) return invalid_file("an output of the payload is not computed");
    outputs.push_back(call.value(id));
  }
  return outputs;
}

}  // namespace downhaul

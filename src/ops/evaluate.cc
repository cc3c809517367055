#include "ops/evaluate.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/strings.h"
#include "ops/allocate.h"

namespace downhaul {

namespace {

Status require_bound(const Dim& dim, const Bindings& bindings, std::string_view what) {
  if (dim.eval(bindings)) return {};
  return invalid_argument(cat(what, ": size ", dim.str(), " has no value in this run"));
}

/// Operand `o` is what the node's type says, in this run.
Status check_operand(const Node& node, size_t o, const Tensor* tensor, const Bindings& bindings) {
  const Value* value = node.operand(static_cast<int>(o));
  if (value == nullptr || tensor == nullptr) {
    if ((value == nullptr) == (tensor == nullptr)) return {};
    return invalid_argument(cat("operand ", o, ": ", value ? "missing" : "not expected"));
  }
  for (const Dim& d : value->shape()) DH_TRY(require_bound(d, bindings, value->name()));
  const auto sizes = eval_sizes(value->shape(), bindings);
  if (tensor->dtype() == value->dtype() && sizes == tensor->sizes()) return {};
  return invalid_argument(
      cat(value->name(), ": expected ", value->type().str(), ", found ", describe(*tensor)));
}

Result<Tensor> allocate_result(const Value& value, const Bindings& bindings) {
  for (const Dim& d : value.shape()) DH_TRY(require_bound(d, bindings, value.name()));
  return allocate_tensor(value.name(), value.dtype(), *eval_sizes(value.shape(), bindings));
}

/// Kernels read typed pointers; data inside a mapped file may lie anywhere.
bool is_aligned(const Tensor& t) {
  return reinterpret_cast<uintptr_t>(t.bytes().data()) % item_size(t.dtype()) == 0;
}

Tensor aligned_copy(const Tensor& t) {
  Tensor out(t.dtype(), t.sizes());
  const Bytes from = t.bytes();
  std::copy(from.begin(), from.end(), out.mutable_data<uint8_t>());
  return out;
}

Status check_attr_sizes(const Node& node, const Bindings& bindings) {
  for (const Attr& attr : node.attrs()) {
    if (const auto* dim = std::get_if<Dim>(&attr)) {
      DH_TRY(require_bound(*dim, bindings, "attribute"));
    } else if (const auto* dims = std::get_if<Dims>(&attr)) {
      for (const Dim& d : *dims) DH_TRY(require_bound(d, bindings, "attribute"));
    }
  }
  return {};
}

Result<std::vector<Tensor>> run_node(const Node& node, const std::vector<const Tensor*>& operands,
                                     const Bindings& bindings) {
  if (operands.size() != node.operands().size()) {
    return invalid_argument(
        cat("expected ", node.operands().size(), " operands, found ", operands.size()));
  }
  DH_TRY(check_attr_sizes(node, bindings));
  std::vector<Tensor> copies;
  copies.reserve(operands.size());
  RefCall call{node, operands, bindings, {}};
  for (size_t o = 0; o < operands.size(); ++o) {
    DH_TRY(check_operand(node, o, operands[o], bindings));
    if (operands[o] != nullptr && !is_aligned(*operands[o])) {
      copies.push_back(aligned_copy(*operands[o]));
      call.operands[o] = &copies.back();
    }
  }
  bool any_element = false;
  for (int r = 0; r < node.num_results(); ++r) {
    DH_ASSIGN(Tensor result, allocate_result(*node.result(r), bindings));
    any_element = any_element || result.num_elements() > 0;
    call.results.push_back(std::move(result));
  }
  // Kernels need not think about empty results, nor about products of sizes that overflow unless a
  // zero is among them.
  if (any_element) DH_TRY(node.op().reference(call));
  return std::move(call.results);
}

/// The free symbol of `dim` and the value that makes it `size`, when dim is a + b · symbol.
std::optional<std::pair<std::string, int64_t>> solve_for_symbol(const Dim& dim, int64_t size) {
  std::map<std::string, SymbolPtr, std::less<>> symbols;
  dim.collect_symbols(symbols);
  if (symbols.size() != 1) return std::nullopt;
  const std::string& name = symbols.begin()->first;
  const auto at = [&](int64_t v) { return dim.eval({{name, v}}); };
  const auto at0 = at(0);
  const auto at1 = at(1);
  const auto at2 = at(2);
  if (!at0 || !at1 || !at2 || *at2 - *at1 != *at1 - *at0 || *at1 == *at0) return std::nullopt;
  return std::pair(name, (size - *at0) / (*at1 - *at0));
}

Status check_symbol(const Symbol& symbol, int64_t value, std::string_view input) {
  if (value >= symbol.min && value <= symbol.max) return {};
  return invalid_argument(cat("input ", input, ": expected ", symbol.name, " in [", symbol.min,
                              ", ", symbol.max, "], found ", value));
}

Status check_inputs(const Graph& graph, const std::vector<TensorType>& inputs) {
  if (inputs.size() != graph.inputs().size()) {
    return invalid_argument(
        cat("expected ", graph.inputs().size(), " inputs, found ", inputs.size()));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = *graph.inputs()[i];
    if (inputs[i].dtype != value.dtype() || inputs[i].rank() != value.rank()) {
      return invalid_argument(cat("input ", value.name(), ": expected ", value.type().str(),
                                  ", found ", inputs[i].str()));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Tensor>> evaluate_node(const Node& node,
                                          const std::vector<const Tensor*>& operands,
                                          const Bindings& bindings) {
  auto results = run_node(node, operands, bindings);
  if (!results.ok()) return std::move(results).status().with_context(node.op_name());
  return results;
}

Result<Bindings> bind_symbols(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<TensorType> types;
  for (const Tensor& input : inputs) types.push_back(type_of(input));
  return bind_symbols(graph, types);
}

Result<Bindings> bind_symbols(const Graph& graph, const std::vector<TensorType>& inputs) {
  DH_TRY(check_inputs(graph, inputs));
  Bindings bindings;
  // Plain symbols first, so that expressions over them are only checked.
  for (const bool expressions : {false, true}) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (int64_t d = 0; d < inputs[i].rank(); ++d) {
        const Dim& dim = graph.inputs()[i]->dim(d);
        if (dim.is_static() || (dim.as_symbol() == nullptr) != expressions) continue;
        const int64_t size = inputs[i].shape[static_cast<size_t>(d)].value();
        if (const auto solved = solve_for_symbol(dim, size)) bindings.insert(*solved);
      }
    }
  }
  for (const auto& [name, symbol] : graph.symbols()) {
    if (!bindings.contains(name)) {
      return invalid_argument(cat("no input determines the size ", name));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = *graph.inputs()[i];
    if (eval_sizes(value.shape(), bindings) != static_sizes(inputs[i].shape)) {
      return invalid_argument(cat("input ", value.name(), ": expected ", value.type().str(),
                                  ", found ", inputs[i].str()));
    }
    std::map<std::string, SymbolPtr, std::less<>> symbols;
    for (const Dim& d : value.shape()) d.collect_symbols(symbols);
    for (const auto& [name, symbol] : symbols) {
      DH_TRY(check_symbol(*symbol, bindings.find(name)->second, value.name()));
    }
  }
  return bindings;
}

Result<std::vector<Tensor>> evaluate(const Graph& graph, const std::vector<Tensor>& inputs,
                                     const EvaluateOptions& options) {
  DH_ASSIGN(const Bindings bindings, bind_symbols(graph, inputs));
  std::unordered_map<const Value*, Tensor> values;
  std::unordered_map<const Value*, int> uses_left;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];

  const auto tensor_of = [&](const Value* v) -> const Tensor* {
    if (v == nullptr) return nullptr;
    if (v->kind() == Value::Kind::kConstant || v->kind() == Value::Kind::kState) {
      return &v->constant();
    }
    return &values.at(v);
  };
  for (const auto& node : graph.nodes()) {
    std::vector<const Tensor*> operands;
    for (const Value* v : node->operands()) operands.push_back(tensor_of(v));
    auto results = evaluate_node(*node, operands, bindings);
    if (!results.ok()) {
      return std::move(results).status().with_context(cat("node ", node->result()->name()));
    }
    if (options.on_node != nullptr) options.on_node(*node, *results, options.context);
    for (int r = 0; r < node->num_results(); ++r) {
      const Value* v = node->result(r);
      uses_left[v] = v->num_uses();
      if (v->num_uses() > 0) values[v] = std::move((*results)[static_cast<size_t>(r)]);
    }
    for (const Value* v : node->operands()) {
      const auto left = uses_left.find(v);
      if (left != uses_left.end() && --left->second == 0) values.erase(v);
    }
  }
  std::vector<Tensor> outputs;
  for (const Output& output : graph.outputs()) outputs.push_back(*tensor_of(output.value));
  return outputs;
}

}  // namespace downhaul

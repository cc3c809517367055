#include <algorithm>
#include <unordered_set>

#include "base/strings.h"
#include "formats/pt2/internal.h"

namespace downhaul::pt2 {
namespace {

std::string quoted(std::string_view name) { return cat("'", printable(name), "'"); }

/// Calls `f(name, is_tensor)` for each value that the argument names.
template <typename F>
struct NameVisitor {
  F& f;

  void operator()(const TensorRef& a) const { f(a.name, true); }
  void operator()(const TensorList& a) const {
    for (const std::string& name : a.names) f(name, true);
  }
  void operator()(const OptionalTensorList& a) const {
    for (const auto& name : a.names) {
      if (name) f(*name, true);
    }
  }
  void operator()(const NestedTensorList& a) const {
    for (const auto& list : a.names) {
      for (const std::string& name : list) f(name, true);
    }
  }
  void operator()(const SymIntArg& a) const { f(a.name, false); }
  void operator()(const SymFloatArg& a) const { f(a.name, false); }
  void operator()(const SymBoolArg& a) const { f(a.name, false); }
  template <typename T>
    requires requires(T t) { t.name, t.value; }
  void operator()(const std::vector<T>& list) const {
    for (const T& a : list) f(a.name, false);
  }
  void operator()(const CustomObject& a) const { f(a.name, false); }
  void operator()(const std::shared_ptr<const StringMap>& map) const {
    for (const auto& [key, argument] : map->entries) std::visit(*this, argument);
  }
  template <typename T>
  void operator()(const T&) const {}
};

template <typename F>
void for_each_name(const Argument& argument, F f) {
  const auto named = [&](const std::string& name, bool tensor) {
    if (!name.empty()) f(name, tensor);  // "" is a literal, or a result that nobody wants
  };
  std::visit(NameVisitor<decltype(named)>{named}, argument);
}

class GraphVerifier {
 public:
  explicit GraphVerifier(const Graph& graph) : graph_(graph) {}

  // Recursion over subgraphs is bounded by the depth limit of the JSON reader.
  Status verify() {
    for (const Argument& input : graph_.inputs) DH_TRY(define(input, "graph input"));
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      Status status = verify_node(node);
      if (!status.ok()) {
        return std::move(status).with_context(cat("node ", i, " (", printable(node.target), ")"));
      }
    }
    for (const Argument& output : graph_.outputs) {
      DH_TRY(use(output).with_context("graph output"));
    }
    return {};
  }

 private:
  Status verify_node(const Node& node) {
    if (node.target.empty()) return invalid_file("target is missing");
    for (const NamedArgument& input : node.inputs) {
      DH_TRY(use(input.value));
      if (const auto* sub = std::get_if<GraphArg>(&input.value)) {
        if (!sub->graph) return invalid_file("subgraph is missing");
        DH_TRY(GraphVerifier(*sub->graph).verify().with_context("subgraph"));
      }
    }
    for (const Argument& output : node.outputs) DH_TRY(define(output, "result"));
    return {};
  }

  Status use(const Argument& argument) const {
    Status status;
    for_each_name(argument, [&](const std::string& name, bool) {
      if (status.ok() && !defined_.contains(name)) {
        status = invalid_file(cat("value ", quoted(name), " is used before it is defined"));
      }
    });
    return status;
  }

  Status define(const Argument& argument, std::string_view what) {
    Status status;
    for_each_name(argument, [&](const std::string& name, bool tensor) {
      if (!status.ok()) return;
      if (!defined_.insert(name).second) {
        status = invalid_file(cat(what, " ", quoted(name), " is defined twice"));
      } else if (tensor && !graph_.tensor_values.contains(name)) {
        status = invalid_file(cat(what, " ", quoted(name), " has no entry in tensor_values"));
      }
    });
    return status;
  }

  const Graph& graph_;
  std::unordered_set<std::string_view> defined_;
};

/// The name of a signature entry's value, "" for a plain value.
std::string_view value_name(const Argument& argument) {
  std::string_view found;
  for_each_name(argument, [&](const std::string& name, bool) { found = name; });
  return found;
}

template <typename Spec>
Status verify_specs(const std::vector<Spec>& specs, const std::vector<Argument>& values,
                    std::string_view what) {
  if (specs.size() != values.size()) {
    return invalid_file(
        cat("signature has ", specs.size(), " ", what, "s, the graph ", values.size()));
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string_view stated = value_name(specs[i].arg);
    const std::string_view found = value_name(values[i]);
    if (stated != found) {
      return invalid_file(cat("signature calls ", what, " ", i, " ", quoted(stated), ", the graph ",
                              quoted(found)));
    }
  }
  return {};
}

std::string describe(ScalarType dtype, const std::vector<std::string>& sizes) {
  return cat(name(dtype), "[", join(sizes, ","), "]");
}

bool is_stored(InputSpec::Kind kind) {
  return kind == InputSpec::Kind::kParameter || kind == InputSpec::Kind::kBuffer ||
         kind == InputSpec::Kind::kTensorConstant;
}

Status compare_meta(const InputSpec& spec, const TensorMeta& meta, const StoredTensor& tensor) {
  bool same = meta.dtype == tensor.dtype && meta.sizes.size() == tensor.sizes.size();
  for (size_t i = 0; same && i < meta.sizes.size(); ++i) {
    same = meta.sizes[i].symbolic || meta.sizes[i].value == tensor.sizes[i];
  }
  if (same) return {};
  std::vector<std::string> wanted;
  for (const Dim& dim : meta.sizes) wanted.push_back(dim.value ? cat(*dim.value) : "?");
  std::vector<std::string> found;
  for (const int64_t size : tensor.sizes) found.push_back(cat(size));
  return invalid_file(cat("weight ", quoted(spec.target), ": the graph expects ",
                          describe(meta.dtype, wanted), ", the archive has ",
                          describe(tensor.dtype, found)));
}

/// At most a few of many names.
std::string some_of(std::vector<std::string> names) {
  constexpr size_t kShown = 5;
  std::sort(names.begin(), names.end());
  const size_t total = names.size();
  if (total > kShown) names.resize(kShown);
  for (std::string& name : names) name = quoted(name);
  return cat(join(names, ", "), total > kShown ? cat(" and ", total - kShown, " more") : "");
}

}  // namespace

Status verify_graph(const Program& program) {
  DH_TRY(GraphVerifier(program.graph).verify());
  DH_TRY(verify_specs(program.inputs, program.graph.inputs, "input"));
  return verify_specs(program.outputs, program.graph.outputs, "output");
}

Status verify_tensors(const Program& program, const TensorTable& tensors,
                      std::vector<std::string>& warnings) {
  std::vector<std::string> missing;
  std::unordered_set<std::string_view> wanted;
  for (const InputSpec& spec : program.inputs) {
    if (!is_stored(spec.kind)) continue;
    wanted.insert(spec.target);
    const auto tensor = tensors.find(spec.target);
    if (tensor == tensors.end()) {
      missing.push_back(spec.target);
      continue;
    }
    const auto* ref = std::get_if<TensorRef>(&spec.arg);
    const auto meta = program.graph.tensor_values.find(ref ? ref->name : std::string());
    if (meta == program.graph.tensor_values.end()) {
      return invalid_file(cat("weight ", quoted(spec.target), " has no placeholder"));
    }
    DH_TRY(compare_meta(spec, meta->second, tensor->second));
  }
  if (!missing.empty()) {
    return invalid_file(cat("the archive lacks ", missing.size(), " of ", wanted.size(),
                            " weights: ", some_of(missing)));
  }
  std::vector<std::string> extra;
  for (const auto& [fqn, tensor] : tensors) {
    if (!wanted.contains(fqn)) extra.push_back(fqn);
  }
  if (!extra.empty()) {
    warnings.push_back(
        cat(extra.size(), " stored weights are not in the program's signature: ", some_of(extra)));
  }
  return {};
}

}  // namespace downhaul::pt2

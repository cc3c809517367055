#include "dialects/aten/liveness.h"

#include <functional>
#include <numeric>
#include <unordered_map>

#include "base/strings.h"
#include "dialects/aten/table.h"

namespace downhaul::aten {
namespace {

constexpr std::string_view kOps = "torch.ops.";
constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";
constexpr std::string_view kPredispatch = "torch._functorch.predispatch.";

void names_in(const pt2::Argument& a, const std::function<void(const std::string&)>& f) {
  if (const auto* ref = std::get_if<pt2::TensorRef>(&a)) {
    f(ref->name);
  } else if (const auto* list = std::get_if<pt2::TensorList>(&a)) {
    for (const std::string& n : list->names) f(n);
  } else if (const auto* optional = std::get_if<pt2::OptionalTensorList>(&a)) {
    for (const auto& n : optional->names) {
      if (n) f(*n);
    }
  } else if (const auto* i = std::get_if<pt2::SymIntArg>(&a)) {
    if (!i->name.empty()) f(i->name);
  } else if (const auto* is = std::get_if<std::vector<pt2::SymIntArg>>(&a)) {
    for (const auto& s : *is) {
      if (!s.name.empty()) f(s.name);
    }
  } else if (const auto* x = std::get_if<pt2::SymFloatArg>(&a)) {
    if (!x->name.empty()) f(x->name);
  } else if (const auto* xs = std::get_if<std::vector<pt2::SymFloatArg>>(&a)) {
    for (const auto& s : *xs) {
      if (!s.name.empty()) f(s.name);
    }
  } else if (const auto* b = std::get_if<pt2::SymBoolArg>(&a)) {
    if (!b->name.empty()) f(b->name);
  }
}

// Names that may share storage, as classes.
class AliasClasses {
 public:
  size_t of(const std::string& name) {
    const auto [it, fresh] = ids_.try_emplace(name, parent_.size());
    if (fresh) parent_.push_back(parent_.size());
    return root(it->second);
  }
  void join(const std::string& a, const std::string& b) { parent_[of(a)] = of(b); }
  size_t size() const { return parent_.size(); }

 private:
  size_t root(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  std::unordered_map<std::string_view, size_t> ids_;
  std::vector<size_t> parent_;
};

const std::string* first_tensor(const pt2::Node& node) {
  for (const pt2::NamedArgument& a : node.inputs) {
    if (const auto* ref = std::get_if<pt2::TensorRef>(&a.value)) return &ref->name;
  }
  return nullptr;
}

bool shares_storage(std::string_view overload) {
  const Row* row = find_row(overload);
  return row != nullptr && row->view;
}

}  // namespace

Target parse_target(std::string_view target) {
  Target t;
  if (target.starts_with(kHigherOrder)) {
    t.higher_order = target.substr(kHigherOrder.size());
  } else if (target.starts_with(kOps)) {
    t.overload = target.substr(kOps.size());
  } else if (target.starts_with(kPredispatch)) {
    t.predispatch = target.substr(kPredispatch.size());
  } else {
    for (const std::string_view module :
         {"_operator.", "operator.", "math.", "torch.sym_", "torch._sym_"}) {
      if (!target.starts_with(module)) continue;
      t.function = target.substr(target.find('.') + 1);
      return t;
    }
  }
  return t;
}

std::string functional_overload(std::string_view overload) {
  const size_t dot = overload.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return {};
  std::string_view base = overload.substr(0, dot);
  const std::string_view suffix = overload.substr(dot);
  constexpr std::string_view kDunder = "aten.__i";
  if (base.starts_with(kDunder) && base.ends_with("__")) {
    return cat("aten.__", base.substr(kDunder.size()), suffix);
  }
  if (!base.ends_with('_') || base.ends_with("__")) return {};
  base.remove_suffix(1);
  return cat(base, suffix);
}

std::vector<bool> live_nodes(const pt2::Graph& graph, const std::vector<std::string>& wanted,
                             const std::vector<std::string>& kept) {
  AliasClasses classes;
  const size_t count = graph.nodes.size();
  std::vector<const std::string*> written(count, nullptr);
  for (size_t i = 0; i < count; ++i) {
    const pt2::Node& node = graph.nodes[i];
    const Target target = parse_target(node.target);
    if (target.overload.empty()) continue;
    const std::string* self = first_tensor(node);
    if (self == nullptr) continue;
    const bool writes = !functional_overload(target.overload).empty();
    if (writes) written[i] = self;
    if (!writes && !shares_storage(target.overload)) continue;
    for (const pt2::Argument& output : node.outputs) {
      names_in(output, [&](const std::string& n) { classes.join(n, *self); });
    }
  }
  // Every name gets its class before the sets below are sized by them.
  for (const pt2::Node& node : graph.nodes) {
    for (const pt2::NamedArgument& a : node.inputs) {
      names_in(a.value, [&](const std::string& n) { classes.of(n); });
    }
    for (const pt2::Argument& a : node.outputs) {
      names_in(a, [&](const std::string& n) { classes.of(n); });
    }
  }
  for (const std::string& n : wanted) classes.of(n);
  for (const std::string& n : kept) classes.of(n);

  std::vector<bool> needed(classes.size(), false);
  for (const std::string& n : wanted) needed[classes.of(n)] = true;
  std::vector<bool> outlives(classes.size(), false);
  for (const std::string& n : kept) outlives[classes.of(n)] = true;

  // Classes, not names: a read of one alias keeps the nodes that made the others, which is seldom
  // more than what is needed.
  std::vector<bool> live(count, false);
  for (size_t i = count; i-- > 0;) {
    const pt2::Node& node = graph.nodes[i];
    bool is_live = !parse_target(node.target).higher_order.empty();
    if (written[i] != nullptr) {
      const size_t c = classes.of(*written[i]);
      is_live = is_live || needed[c] || outlives[c];
    }
    for (const pt2::Argument& output : node.outputs) {
      names_in(output, [&](const std::string& n) { is_live = is_live || needed[classes.of(n)]; });
    }
    live[i] = is_live;
    if (!is_live) continue;
    for (const pt2::NamedArgument& a : node.inputs) {
      names_in(a.value, [&](const std::string& n) { needed[classes.of(n)] = true; });
    }
  }
  return live;
}

}  // namespace downhaul::aten

#include "rewrite/rewrite.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "rewrite/pattern.h"

namespace downhaul {

namespace {

template <typename Map>
const auto& lookup(const Map& map, std::string_view name) {
  const auto it = map.find(name);
  DH_CHECK(it != map.end());
  return it->second;
}

}  // namespace

Value* Match::value(std::string_view name) const { return lookup(values_, name); }

Node* Match::node(std::string_view name) const {
  Node* node = value(name)->producer();
  DH_CHECK(node != nullptr);
  return node;
}

const Tensor& Match::constant(std::string_view name) const { return value(name)->constant(); }
const Attr& Match::attr(std::string_view name) const { return lookup(attrs_, name); }
double Match::f(std::string_view name) const { return std::get<double>(attr(name)); }
int64_t Match::i(std::string_view name) const { return std::get<int64_t>(attr(name)); }
const Ints& Match::ints(std::string_view name) const { return std::get<Ints>(attr(name)); }

int PassLog::count(std::string_view rewrite) const {
  int total = 0;
  for (const Entry& entry : entries) {
    if (entry.rewrite == rewrite) total += entry.count;
  }
  return total;
}

bool matches(const Rewrite& rewrite, Node& node, Match* match) {
  return rewrite.match != nullptr && pattern_of(rewrite).match(node, match);
}

namespace {

/// Ends a rewrite war, in which rewrites undo each other. A chain of rewrites may well walk through
/// a deep model a few nodes a sweep, so larger graphs get more; what is slow at that size anyway is
/// cut off at the end.
int max_sweeps(const Graph& graph) {
  return static_cast<int>(std::min<size_t>(64 + graph.nodes().size() / 2, 1000));
}
constexpr size_t kMaxFiringsPerNode = 64;

/// Our own mistake, but it shows on some models only: their user gets an error that says which
/// rewrites to leave out. `fired` counts the firings of each rewrite in the last sweep.
Status no_fixed_point(std::span<const Rewrite* const> rewrites, const std::vector<int>& fired) {
  std::vector<std::string> names;
  for (size_t i = 0; i < rewrites.size(); ++i) {
    if (fired[i] > 0) names.push_back(cat("'", rewrites[i]->name, "'"));
  }
  return invalid_graph(cat("rewrites never end, they undo each other: ", join(names, ", "),
                           "; disable one of them"));
}

/// The rewrites that can have a node of an operator as root, in the order of the list.
class RewriteIndex {
 public:
  explicit RewriteIndex(std::span<const Rewrite* const> rewrites) {
    for (const Rewrite* r : rewrites) {
      rewrites_.push_back({r, r->match != nullptr ? pattern_of(*r).root_op() : r->root});
    }
  }

  const std::vector<size_t>& for_op(const OpDef& op) {
    const auto [it, added] = by_op_.try_emplace(&op);
    if (added) {
      for (size_t i = 0; i < rewrites_.size(); ++i) {
        if (rewrites_[i].root == nullptr || rewrites_[i].root == &op) it->second.push_back(i);
      }
    }
    return it->second;
  }

 private:
  struct Entry {
    const Rewrite* rewrite;
    const OpDef* root;
  };
  std::vector<Entry> rewrites_;
  std::unordered_map<const OpDef*, std::vector<size_t>> by_op_;
};

bool is_unused(const Node& node) {
  for (int i = 0; i < node.num_results(); ++i) {
    if (node.result(i)->num_uses() > 0) return false;
  }
  return true;
}

/// Erases `node` if nobody uses it, then what only it used; collects the origins that vanish.
void erase_unused(Graph& graph, Node* node, std::vector<int>& origins) {
  std::vector<Node*> stack = {node};
  while (!stack.empty()) {
    Node* top = stack.back();
    stack.pop_back();
    if (!is_unused(*top)) continue;
    std::vector<Node*> producers;
    for (const Value* operand : top->operands()) {
      if (operand == nullptr || operand->producer() == nullptr) continue;
      if (std::find(producers.begin(), producers.end(), operand->producer()) == producers.end()) {
        producers.push_back(operand->producer());
      }
    }
    // A producer may be on the stack already, through another user; it is visited again only when
    // its last user is gone, so drop the older entry.
    for (Node* producer : producers) {
      stack.erase(std::remove(stack.begin(), stack.end(), producer), stack.end());
      stack.push_back(producer);
    }
    origins.insert(origins.end(), top->origins().begin(), top->origins().end());
    graph.erase(top);
  }
}

void discard(Graph& graph, const Builder& builder) {
  for (size_t i = builder.created().size(); i-- > 0;) graph.erase(builder.created()[i]);
}

std::vector<Value*> build(const Rewrite& rewrite, Node& node, Builder& builder) {
  if (rewrite.match == nullptr) return rewrite.apply(node, builder);
  Match match;
  if (!pattern_of(rewrite).match(node, &match)) return {};
  if (rewrite.where != nullptr && !rewrite.where(match)) return {};
  Value* value = rewrite.build(match, builder);
  if (value == nullptr) return {};
  return {value};
}

/// True when the replacements can stand for the results: all there, of equal types, and new.
bool replaces(const Node& node, const std::vector<Value*>& values) {
  if (static_cast<int>(values.size()) != node.num_results()) return false;
  bool changes = false;
  for (int i = 0; i < node.num_results(); ++i) {
    const Value* value = values[static_cast<size_t>(i)];
    if (value == nullptr) {
      if (node.result(i)->num_uses() > 0) return false;
      continue;
    }
    if (value->type() != node.result(i)->type()) return false;
    changes = changes || value != node.result(i);
  }
  return changes;
}

struct Outcome {
  bool fired = false;
  Node* resume = nullptr;  ///< the first new node, or null
};

Result<Outcome> try_rewrite(const Rewrite& rewrite, Node& node) {
  Graph& graph = node.graph();
  Builder builder(graph, &node);
  const std::vector<Value*> values = build(rewrite, node, builder);
  if (!builder.status().ok()) {
    Status status = builder.status();
    discard(graph, builder);
    return std::move(status).with_context(
        cat("rewrite '", rewrite.name, "' at %", node.result()->name()));
  }
  if (!replaces(node, values)) {
    discard(graph, builder);
    return Outcome{};
  }
  for (int i = 0; i < node.num_results(); ++i) {
    Value* value = values[static_cast<size_t>(i)];
    if (value != nullptr) graph.replace_all_uses(node.result(i), value);
  }
  std::vector<int> origins;
  std::vector<Node*> created = builder.created();
  // What was built in vain goes first: it has no origin of its own.
  std::erase_if(created, [&](Node* n) { return n == nullptr; });
  for (size_t i = created.size(); i-- > 0;) {
    if (is_unused(*created[i])) {
      graph.erase(created[i]);
      created.erase(created.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  erase_unused(graph, &node, origins);
  for (Node* n : created) n->add_origins(origins);
  return Outcome{true, created.empty() ? nullptr : created.front()};
}

}  // namespace

Result<int> apply_rewrites(Graph& graph, std::span<const Rewrite* const> rewrites, PassLog* log,
                           std::string_view pass, bool (*only)(const Node& root)) {
  RewriteIndex index(rewrites);
  std::vector<int> counts(rewrites.size());
  int total = 0;
  const int last_sweep = max_sweeps(graph);
  for (int sweep = 0;; ++sweep) {
    std::vector<int> fired(rewrites.size());
    size_t firings = 0;
    const size_t limit = kMaxFiringsPerNode * (graph.nodes().size() + 1);
    for (Node* node = graph.first_node(); node != nullptr;) {
      Node* next = node->next();
      if (only != nullptr && !only(*node)) {
        node = next;
        continue;
      }
      for (const size_t i : index.for_op(node->op())) {
        DH_ASSIGN(const Outcome outcome, try_rewrite(*rewrites[i], *node));
        if (!outcome.fired) continue;
        ++counts[i];
        ++fired[i];
        if (++firings == limit) return no_fixed_point(rewrites, fired);
        ++total;
        // The new nodes may match at once; they lie just before what was rewritten.
        if (outcome.resume != nullptr) next = outcome.resume;
        break;
      }
      node = next;
    }
    if (firings == 0) break;
    if (sweep + 1 == last_sweep) return no_fixed_point(rewrites, fired);
  }
  graph.remove_dead();
  if (log != nullptr) {
    for (size_t i = 0; i < rewrites.size(); ++i) {
      if (counts[i] > 0) log->entries.push_back({std::string(pass), rewrites[i]->name, counts[i]});
    }
  }
  return total;
}

}  // namespace downhaul

#include "report/divergence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "ops/evaluate.h"
#include "passes/passes.h"
#include "report/metrics.h"
#include "report/rounding.h"

namespace downhaul {
namespace {

/// What two values may differ by: `absolute`, or `relative` of numbers above kLarge.
struct Limit {
  double absolute = 0;
  double relative = 0;
};

bool close(float x, float y, const Limit& limit) {
  if (x == y) return true;
  const double d = std::abs(static_cast<double>(x) - static_cast<double>(y));
  if (d <= limit.absolute || (std::isnan(x) && std::isnan(y))) return true;
  return std::abs(x) > kLarge && d <= limit.relative * std::abs(static_cast<double>(x));
}

Sizes without_ones(const Sizes& sizes) {
  Sizes out;
  std::copy_if(sizes.begin(), sizes.end(), std::back_inserter(out),
               [](int64_t n) { return n != 1; });
  return out;
}

/// `a` walked with its dimensions in `order` against `b` from beginning to end.
bool agree_in_order(const float* a, const Sizes& sizes, const std::vector<int>& order,
                    const float* b, const Limit& limit) {
  const std::vector<int64_t> strides = contiguous_strides(sizes);
  const size_t rank = sizes.size();
  if (rank == 0) return close(*a, *b, limit);
  std::vector<int64_t> index(rank, 0);
  const int64_t inner = sizes[static_cast<size_t>(order[rank - 1])];
  const int64_t step = strides[static_cast<size_t>(order[rank - 1])];
  int64_t at = 0;
  while (true) {
    for (int64_t i = 0; i < inner; ++i) {
      if (!close(a[at + i * step], *b++, limit)) return false;
    }
    size_t d = rank - 1;
    while (d > 0) {
      const auto dim = static_cast<size_t>(order[d - 1]);
      at += strides[dim];
      if (++index[d - 1] < sizes[dim]) break;
      at -= strides[dim] * sizes[dim];
      index[d - 1] = 0;
      --d;
    }
    if (d == 0) return true;
  }
}

bool some_order_of_first(const Tensor& a, const Tensor& b, const Limit& limit) {
  const Sizes sizes = without_ones(a.sizes());
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    if (agree_in_order(a.data<float>(), sizes, order, b.data<float>(), limit)) return true;
  } while (sizes.size() <= 4 && std::next_permutation(order.begin(), order.end()));
  return false;
}

/// One result of one node, kept while the graphs are compared.
struct Traced {
  const Node* node = nullptr;
  int result = 0;
  Tensor value;              ///< f32
  double low = 0, high = 0;  ///< of finite elements
  double scale = 0;          ///< as in TensorMetrics
  int64_t not_finite = 0;
  Limit limit;

  const Value* of() const { return node->result(result); }
};

/// Values smaller than this are taken for what is left of larger ones: their rounding is not
/// relative to themselves.
constexpr double kSmallest = 1e-3;

class Trace {
 public:
  Trace(const Graph& graph, double factor, double unit)
      : graph_(graph), rounding_(graph), factor_(factor), unit_(unit) {}

  Status evaluate(const std::vector<Tensor>& inputs) {
    EvaluateOptions options;
    options.context = this;
    options.on_node = [](const Node& node, const std::vector<Tensor>& results, void* context) {
      static_cast<Trace*>(context)->add(node, results);
    };
    DH_ASSIGN(outputs_, downhaul::evaluate(graph_, inputs, options));
    return {};
  }

  const Graph& graph() const { return graph_; }
  const Rounding& rounding() const { return rounding_; }
  const std::vector<Traced>& values() const { return values_; }
  const std::vector<Tensor>& outputs() const { return outputs_; }
  const std::vector<size_t>& of_count(int64_t elements) const {
    static const std::vector<size_t> kNone;
    const auto it = by_count_.find(elements);
    return it == by_count_.end() ? kNone : it->second;
  }
  std::set<std::string> names_of(const Node& node) const {
    std::set<std::string> names;
    for (const int origin : node.origins()) {
      names.insert(graph_.origins[static_cast<size_t>(origin)].name);
    }
    return names;
  }
  Limit limit(const Value* value, double scale) const {
    const double tolerance = rounding_.tolerance(value, unit_) * factor_;
    return {tolerance * std::max(scale, kSmallest), tolerance};
  }

 private:
  void add(const Node& node, const std::vector<Tensor>& results) {
    for (size_t r = 0; r < results.size(); ++r) {
      const Value* value = node.result(static_cast<int>(r));
      if (value->num_uses() == 0 || results[r].num_elements() == 0) continue;
      Traced t;
      t.node = &node;
      t.result = static_cast<int>(r);
      t.value = results[r].cast(DType::kF32);
      const float* x = t.value.data<float>();
      t.low = INFINITY;
      t.high = -INFINITY;
      for (int64_t i = 0, n = t.value.num_elements(); i < n; ++i) {
        if (!std::isfinite(x[i])) {
          ++t.not_finite;
          continue;
        }
        t.low = std::min<double>(t.low, x[i]);
        t.high = std::max<double>(t.high, x[i]);
        if (std::abs(x[i]) <= kLarge) t.scale = std::max<double>(t.scale, std::abs(x[i]));
      }
      if (t.not_finite == t.value.num_elements()) t.low = t.high = 0;
      t.limit = limit(value, t.scale);
      by_count_[t.value.num_elements()].push_back(values_.size());
      values_.push_back(std::move(t));
    }
  }

  const Graph& graph_;
  Rounding rounding_;
  double factor_, unit_;
  std::vector<Traced> values_;
  std::vector<Tensor> outputs_;
  std::unordered_map<int64_t, std::vector<size_t>> by_count_;
};

/// b = s·a for one number s: what folding a factor into weights makes of a value.
bool agree_but_for_a_factor(const Traced& a, const Traced& b) {
  constexpr int64_t kEnough = 8;  // elements that a factor does not fit by chance
  const int64_t n = a.value.num_elements();
  if (a.not_finite + b.not_finite > 0 || n < kEnough || a.value.sizes() != b.value.sizes() ||
      a.scale == 0 || b.scale == 0) {
    return false;
  }
  const float* x = a.value.data<float>();
  const float* y = b.value.data<float>();
  const int64_t at =
      std::max_element(x, x + n, [](float p, float q) { return std::abs(p) < std::abs(q); }) - x;
  const double factor = static_cast<double>(y[at]) / x[at];
  if (factor == 0) return false;
  const double limit = std::max(a.limit.absolute * std::abs(factor), b.limit.absolute);
  for (int64_t i = 0; i < n; ++i) {
    if (!(std::abs(factor * x[i] - y[i]) <= limit)) return false;
  }
  return true;
}

Limit larger(const Limit& a, const Limit& b) {
  return {std::max(a.absolute, b.absolute), std::max(a.relative, b.relative)};
}

bool agree(const Traced& a, const Traced& b) {
  const Limit limit = larger(a.limit, b.limit);
  const auto same = [&](double x, double y) {
    return std::abs(x - y) <= std::max(limit.absolute, limit.relative * std::abs(x));
  };
  if (a.not_finite != b.not_finite || !same(a.low, b.low) || !same(a.high, b.high)) return false;
  return some_order_of_first(a.value, b.value, limit) ||
         some_order_of_first(b.value, a.value, limit);
}

struct Matching {
  std::unordered_set<const Node*> agreeing;  ///< every used result has a counterpart
  std::unordered_map<const Value*, std::vector<const Value*>> counterparts;
  int by_name = 0, by_value = 0, unmatched = 0;
};

/// Which of b's nodes have counterparts in a.
Matching match(const Trace& a, const Trace& b) {
  std::unordered_map<std::string, std::vector<size_t>> by_name;
  for (size_t i = 0; i < a.values().size(); ++i) {
    for (const std::string& name : a.names_of(*a.values()[i].node)) by_name[name].push_back(i);
  }
  Matching out;
  std::unordered_set<const Node*> lonely;
  for (const Traced& value : b.values()) {
    std::set<size_t> named;
    for (const std::string& name : b.names_of(*value.node)) {
      const auto it = by_name.find(name);
      if (it == by_name.end()) continue;
      for (const size_t i : it->second) {
        if (a.values()[i].value.num_elements() == value.value.num_elements()) named.insert(i);
      }
    }
    std::vector<size_t> candidates(named.begin(), named.end());
    if (named.empty()) candidates = a.of_count(value.value.num_elements());
    auto& equals = out.counterparts[value.of()];
    for (const size_t i : candidates) {
      if (agree(a.values()[i], value)) equals.push_back(a.values()[i].of());
    }
    if (!equals.empty()) {
      ++(named.empty() ? out.by_value : out.by_name);
      continue;
    }
    ++out.unmatched;
    const auto scaled = [&](size_t i) { return agree_but_for_a_factor(a.values()[i], value); };
    if (std::none_of(candidates.begin(), candidates.end(), scaled)) lonely.insert(value.node);
  }
  for (const auto& node : b.graph().nodes()) {
    if (!lonely.contains(node.get())) out.agreeing.insert(node.get());
  }
  return out;
}

/// Nodes without counterpart from which only such nodes lead to one of `wrong`, the values of
/// outputs that disagree; in the order of execution.
struct Suspects {
  std::vector<const Node*> nodes;
  /// Of them, those that also lead to floats with a counterpart: steps that the other graph takes
  /// in another way (a mask made once for all layers), most likely.
  std::unordered_set<const Node*> doubtful;

  const Node* first() const {
    for (const Node* node : nodes) {
      if (!doubtful.contains(node)) return node;
    }
    return nodes.empty() ? nullptr : nodes.front();
  }
};

Suspects suspects_of(const Graph& graph, const Matching& matching,
                     const std::unordered_set<const Value*>& wrong) {
  Suspects out;
  std::unordered_set<const Node*> bad, fine;
  for (auto it = graph.nodes().rbegin(); it != graph.nodes().rend(); ++it) {
    const Node* node = it->get();
    if (matching.agreeing.contains(node)) {
      if (is_float(node->result()->dtype())) fine.insert(node);
      continue;
    }
    bool leads = false;
    bool is_fine = false;
    for (int r = 0; r < node->num_results(); ++r) {
      leads = leads || wrong.contains(node->result(r));
      for (const Use& use : node->result(r)->uses()) {
        leads = leads || bad.contains(use.node);
        is_fine = is_fine || fine.contains(use.node);
      }
    }
    if (is_fine) fine.insert(node);
    if (!leads) continue;
    bad.insert(node);
    out.nodes.push_back(node);
    if (is_fine) out.doubtful.insert(node);
  }
  std::reverse(out.nodes.begin(), out.nodes.end());
  return out;
}

/// The same operator on operands that correspond: only its weights or attributes can be to blame.
bool same_call(const Node& a, const Node& b, const Matching& matching) {
  if (&a.op() != &b.op() || a.operands().size() != b.operands().size()) return false;
  bool any = false;
  for (size_t i = 0; i < a.operands().size(); ++i) {
    const Value* p = a.operand(static_cast<int>(i));
    const Value* q = b.operand(static_cast<int>(i));
    if (p == nullptr || q == nullptr || q->is_constant()) {
      if ((p == nullptr) != (q == nullptr) || (p != nullptr && !p->is_constant())) return false;
      continue;
    }
    any = true;
    if (p->is_input() && q->is_input()) continue;
    const auto it = matching.counterparts.find(q);
    if (it == matching.counterparts.end() ||
        std::find(it->second.begin(), it->second.end(), p) == it->second.end()) {
      return false;
    }
  }
  return any;
}

const Traced* traced(const Trace& trace, const Node& node) {
  for (const Traced& t : trace.values()) {
    if (t.node == &node && t.result == 0) return &t;
  }
  return nullptr;
}

/// Of `nodes`, the one whose value differs from `wanted` in the fewest elements, and is not unlike
/// it; null when none is.
const Node* closest(const Traced& wanted, const std::vector<const Node*>& nodes,
                    const Trace& trace) {
  const Node* best = nullptr;
  int64_t fewest = wanted.value.num_elements() + 1;
  for (const Node* node : nodes) {
    const Traced* other = traced(trace, *node);
    if (other == nullptr ||
        without_ones(other->value.sizes()) != without_ones(wanted.value.sizes())) {
      continue;
    }
    const Tensor value = other->value.reshaped(wanted.value.sizes());
    constexpr double kUnlike = 0.5;
    const TensorMetrics m = compare_tensors(wanted.value, value);
    if (m.not_finite_unequal == 0 && m.relative_l2 > kUnlike) continue;
    const Limit limit = larger(wanted.limit, other->limit);
    int64_t differ = 0;
    for (int64_t i = 0; i < m.elements; ++i) {
      differ += !close(wanted.value.data<float>()[i], value.data<float>()[i], limit);
    }
    if (differ < fewest) {
      fewest = differ;
      best = node;
    }
  }
  return best;
}

struct Blamed {
  const Node* a = nullptr;
  const Node* b = nullptr;
};

Blamed blame(const Trace& trace_a, const Trace& trace_b, const Suspects& a, const Suspects& b,
             const Matching& matching) {
  for (const Node* q : b.nodes) {
    for (const Node* p : a.nodes) {
      if (same_call(*p, *q, matching)) return {p, q};
    }
  }
  Blamed out{a.first(), b.first()};
  if (out.a == nullptr || out.b == nullptr) return out;
  // One operator of the first file may be several of the second: the last of them gives its value.
  const Traced* value = traced(trace_a, *out.a);
  if (value == nullptr) return out;
  if (const Node* node = closest(*value, b.nodes, trace_b)) out.b = node;
  return out;
}

OperatorPlace place_of(const Node& node) {
  OperatorPlace place;
  place.name = node.result()->name();
  place.op = node.op_name();
  place.type = node.result()->type().str();
  if (!node.origins().empty()) {
    const Origin& origin = node.graph().origins[static_cast<size_t>(node.origins().back())];
    place.origin = origin.name;
    if (!origin.module_path.empty()) place.origin += cat(" in ", origin.module_path);
  }
  for (const Value* operand : node.operands()) {
    if (operand != nullptr && operand->is_constant()) place.constants.push_back(operand->name());
  }
  return place;
}

void describe_pair(const Node& a, const Node& b, const Trace& trace_a, const Trace& trace_b,
                   Divergence& out) {
  const Traced* x = traced(trace_a, a);
  const Traced* y = traced(trace_b, b);
  if (x != nullptr && y != nullptr &&
      without_ones(x->value.sizes()) == without_ones(y->value.sizes())) {
    out.difference = compare_tensors(x->value, y->value.reshaped(x->value.sizes())).max_abs;
  }
  if (&a.op() != &b.op() || a.operands().size() != b.operands().size()) return;
  for (size_t i = 0; i < a.operands().size(); ++i) {
    const Value* p = a.operand(static_cast<int>(i));
    const Value* q = b.operand(static_cast<int>(i));
    if (p == nullptr || q == nullptr || !p->is_constant() || !q->is_constant()) continue;
    if (p->constant().sizes() != q->constant().sizes()) continue;
    const TensorMetrics m = compare_tensors(p->constant(), q->constant());
    if (m.unequal == 0) continue;
    std::string argument = cat("operand ", i);
    for (const SchemaArg& arg : a.schema().args) {
      const bool tensor = arg.kind == ArgKind::kTensor;
      if (tensor && arg.index == static_cast<int>(i)) argument = arg.name;
    }
    out.weights.push_back(cat(argument, ": ", m.unequal, " of ", m.elements,
                              " elements differ, by at most ", static_cast<float>(m.max_abs)));
  }
}

Result<Divergence> compare_graphs(const Graph& a, const Graph& b, const DivergenceQuery& query) {
  const double unit = std::max(Rounding(a).unit(), Rounding(b).unit());
  Trace trace_a(a, query.tolerance_factor, unit);
  Trace trace_b(b, query.tolerance_factor, unit);
  DH_TRY(trace_a.evaluate(*query.inputs_a));
  DH_TRY(trace_b.evaluate(*query.inputs_b));
  std::unordered_set<const Value*> wrong_a, wrong_b;
  for (const auto& [i, j] : query.outputs) {
    const Tensor& x = trace_a.outputs()[i];
    const Tensor& y = trace_b.outputs()[j];
    const Value* p = a.outputs()[i].value;
    const Value* q = b.outputs()[j].value;
    if (x.sizes() == y.sizes()) {
      const TensorMetrics m = compare_tensors(x, y);
      const Limit limit = larger(trace_a.limit(p, m.scale), trace_b.limit(q, m.scale));
      const double small = m.scale > 0 ? limit.absolute / m.scale : limit.relative;
      if (m.not_finite_unequal == 0 && m.relative <= small) continue;
    }
    wrong_a.insert(p);
    wrong_b.insert(q);
  }
  Divergence out;
  if (wrong_b.empty()) return out;
  out.outputs_differ = true;
  const Matching forth = match(trace_a, trace_b);
  const Matching back = match(trace_b, trace_a);
  out.by_name = forth.by_name;
  out.by_value = forth.by_value;
  out.unmatched = forth.unmatched;
  const auto [in_a, in_b] =
      blame(trace_a, trace_b, suspects_of(a, back, wrong_a), suspects_of(b, forth, wrong_b), forth);
  if (in_a != nullptr) out.a = place_of(*in_a);
  if (in_b != nullptr) out.b = place_of(*in_b);
  if (in_a != nullptr && in_b != nullptr) {
    describe_pair(*in_a, *in_b, trace_a, trace_b, out);
  }
  return out;
}

Result<std::unique_ptr<Graph>> in_shared_form(const Graph& graph) {
  std::unique_ptr<Graph> copy = graph.clone();
  DH_TRY(run_pipeline(*copy, canonical_passes(), {}));
  return copy;
}

}  // namespace

bool agree_in_some_order(const Tensor& a, const Tensor& b, double limit) {
  if (a.num_elements() != b.num_elements()) return false;
  if (a.num_elements() == 0) return true;
  const Tensor x = a.cast(DType::kF32);
  const Tensor y = b.cast(DType::kF32);
  return some_order_of_first(x, y, {limit, 0}) || some_order_of_first(y, x, {limit, 0});
}

std::string OperatorPlace::str() const {
  std::string out = cat(name, " = ", op, " ", type);
  if (!origin.empty()) out += cat(", from ", printable(origin));
  if (!constants.empty()) out += cat(", weights ", printable(join(constants, ", "), 400));
  return out;
}

std::string Divergence::method() const {
  std::vector<std::string> parts;
  if (by_name > 0) parts.push_back(cat(by_name, " by the names of their nodes"));
  if (by_value > 0) parts.push_back(cat(by_value, " by shape, order and numeric agreement"));
  if (unmatched > 0) parts.push_back(cat(unmatched, " have no equal in the other file"));
  return join(parts, ", ");
}

Result<Divergence> find_divergence(const DivergenceQuery& query) {
  DH_ASSIGN(const auto a, in_shared_form(*query.a));
  DH_ASSIGN(const auto b, in_shared_form(*query.b));
  DH_ASSIGN(Divergence out, compare_graphs(*a, *b, query));
  if (out.outputs_differ) return out;
  DH_ASSIGN(out, compare_graphs(*query.a, *query.b, query));
  out.as_written = out.outputs_differ;
  return out;
}

}  // namespace downhaul

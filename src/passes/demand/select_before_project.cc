// Rows that are picked after a computation are picked before it.
//
// A select is a slice, or a batched_select (one row of each batch), of a value. If the value's
// producer maps the picked dimension one to one from its operands, and nobody else needs the whole
// value, then picking the operands' rows first gives the same and computes only these rows. The
// pass walks from each select towards the inputs and collects the region of operators that can work
// on picked rows only; the operands where it ends (values that others need whole, inputs,
// constants) are picked there, and the region is rebuilt on the result, at the place of the select:
// there every index and every border value exists already. So logits[:, -1], logits[rows, where]
// and hidden[:, 0] make the last layer of a transformer compute one row; its keys and values stay
// whole, since attention needs all of them.
//
// It knows operators only by their `axes`, and the two whose attributes state sizes (reshape,
// expand). It never trades: only when a region's result is needed by the select alone, and either
// arithmetic that counts lies in it or at most half of the rows remain.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/strings.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul {

namespace {

/// Which dimension of a value is picked from, and which is the batch that the index varies over.
struct Spec {
  static constexpr int kSingleBatch = -1;  ///< one batch: one index for everything
  static constexpr int kBroadcast = -2;    ///< the value has one row table for all batches
  int row = 0;
  int batch = kSingleBatch;
  friend bool operator==(const Spec&, const Spec&) = default;
};

class Mover {
 public:
  Mover(Graph& graph, Node& select) : graph_(graph), select_(select) {
    if (select.is(ops::kSlice)) {
      root_spec_.row = static_cast<int>(select.axis("dim", select.result()->rank()));
    } else {
      root_spec_.row = 1;
      root_spec_.batch = select.operand(0)->dim(0) == Dim(1) ? Spec::kSingleBatch : 0;
    }
  }

  Result<bool> run() {
    if (!collect_region() || !worth_it()) return false;
    Builder builder(graph_, &select_);
    Value* value = rebuild(builder);
    if (!builder.status().ok() || value == nullptr || value->type() != select_.result()->type()) {
      for (size_t i = builder.created().size(); i-- > 0;) graph_.erase(builder.created()[i]);
      if (!builder.status().ok()) {
        return Status(builder.status()).with_context("select_before_project");
      }
      return false;
    }
    graph_.replace_all_uses(select_.result(), value);
    return true;
  }

 private:
  struct Request {
    Spec spec;
    int uses = 0;
  };

  static bool moves_data(const Node& node) {
    return node.is(ops::kSlice) || node.is(ops::kBatchedSelect) || node.is(ops::kPermute) ||
           node.is(ops::kReshape) || node.is(ops::kExpand);
  }

  static bool can_move(const Node& node) {
    return node.num_results() == 1 && node.op().axes != nullptr && !node.operands().empty();
  }

  /// What picking `spec` of the node's result demands of operand `i`; nullopt: the whole operand.
  static std::optional<Spec> operand_spec(const Node& node, const AxisMap& axes, size_t i,
                                          const Spec& spec) {
    const std::vector<int>& map = axes.operand[i];
    Spec out;
    out.row = -1;
    out.batch = spec.batch == Spec::kSingleBatch ? Spec::kSingleBatch : Spec::kBroadcast;
    for (size_t d = 0; d < map.size(); ++d) {
      if (map[d] == spec.row) out.row = static_cast<int>(d);
      if (spec.batch >= 0 && map[d] == spec.batch) out.batch = static_cast<int>(d);
    }
    if (out.row < 0) return std::nullopt;
    // A position counted within a merged or split dimension is another position.
    if (!(node.operands()[i]->dim(out.row) == node.result()->dim(spec.row))) return std::nullopt;
    return out;
  }

  /// Some operand must carry the rows, and none may carry two of the result's dimensions in a way
  /// that the maps cannot say.
  bool enter(Node& node, const Spec& spec) {
    const AxisMap axes = node.op().axes(node);
    if (axes.operand.size() != node.operands().size()) return false;
    std::vector<std::optional<Spec>> specs(node.operands().size());
    bool any = false;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (node.operands()[i] == nullptr) continue;
      specs[i] = operand_spec(node, axes, i, spec);
      any = any || specs[i].has_value();
    }
    if (!any || !sizes_can_change(node, spec)) return false;
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i]) request(node.operands()[i], *specs[i]);
    }
    region_[&node] = {spec, std::move(specs)};
    order_.push_back(&node);
    return true;
  }

  static bool sizes_can_change(const Node& node, const Spec& spec) {
    // Sizes in attributes: rebuilt for reshape and expand. Others must not name the row's size.
    if (node.is(ops::kReshape) || node.is(ops::kExpand)) return true;
    if (node.is(ops::kLayerNorm)) {
      const auto normalized = static_cast<int64_t>(node.ints("normalized_shape").size());
      return spec.row < node.result()->rank() - normalized;
    }
    return true;
  }

  void request(Value* value, const Spec& spec) {
    for (Request& r : requests_[value]) {
      if (r.spec == spec) {
        ++r.uses;
        return;
      }
    }
    requests_[value].push_back({spec, 1});
  }

  bool collect_region() {
    Value* root = select_.operand(0);
    request(root, root_spec_);
    for (Node* node = select_.previous(); node != nullptr; node = node->previous()) {
      if (node->num_results() != 1) continue;
      const auto it = requests_.find(node->result());
      if (it == requests_.end() || it->second.size() != 1) continue;
      const Request wanted = it->second.front();
      // Every use is by this region, and picks the same.
      if (wanted.uses != node->result()->num_uses() || wanted.spec.batch == Spec::kBroadcast)
        continue;
      if (can_move(*node)) enter(*node, wanted.spec);
    }
    return !region_.empty();
  }

  bool worth_it() const {
    // Past operators that only move data nothing is gained, and two selects along different
    // dimensions, or a select and the permutes that it needs itself, would pass each other for
    // ever.
    if (std::all_of(order_.begin(), order_.end(), [](const Node* n) { return moves_data(*n); })) {
      return false;
    }
    for (const Node* node : order_) {
      if (node->op().multiply_adds != nullptr) return true;
    }
    const Dim& before = select_.operand(0)->dim(root_spec_.row);
    const Dim& after = select_.result()->dim(root_spec_.row);
    return after.max() <= before.max() / 2;
  }

  /// The rows of a border value.
  Value* pick(Builder& b, Value* value, const Spec& spec) {
    if (select_.is(ops::kSlice)) {
      return b.like(select_, {value}, {{"dim", int64_t{spec.row}}});
    }
    Value* index = select_.operand(1);
    const auto rank = static_cast<size_t>(value->rank());
    int batch = spec.batch;
    if (batch == Spec::kBroadcast) return pick_broadcast(b, value, spec);
    // batched_select wants [batch, row, …].
    if (batch == Spec::kSingleBatch) {
      for (size_t d = 0; d < rank && batch < 0; ++d) {
        if (value->dim(static_cast<int64_t>(d)) == Dim(1) && static_cast<int>(d) != spec.row) {
          batch = static_cast<int>(d);
        }
      }
      if (batch < 0) return pick_unbatched(b, value, spec);
    }
    Ints order = {batch, spec.row};
    for (size_t d = 0; d < rank; ++d) {
      if (static_cast<int>(d) != batch && static_cast<int>(d) != spec.row) {
        order.push_back(static_cast<int64_t>(d));
      }
    }
    const bool in_place = std::is_sorted(order.begin(), order.end());
    if (!in_place) value = b.op(ops::kPermute, {value}, {{"dims", order}});
    value = b.op(ops::kBatchedSelect, {value, index});
    if (in_place) return value;
    Ints back(rank);
    for (size_t d = 0; d < rank; ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
    return b.op(ops::kPermute, {value}, {{"dims", back}});
  }

  /// One row of a value that has no dimension of size 1 to serve as the batch.
  Value* pick_unbatched(Builder& b, Value* value, const Spec& spec) {
    Dims shape = value->shape();
    shape.insert(shape.begin(), Dim(1));
    value = b.op(ops::kReshape, {value}, {{"shape", shape}});
    if (value == nullptr) return nullptr;
    value = pick(b, value, {spec.row + 1, 0});
    if (value == nullptr) return nullptr;
    Dims back(value->shape().begin() + 1, value->shape().end());
    return b.op(ops::kReshape, {value}, {{"shape", back}});
  }

  /// A table of rows that all batches share (a position embedding, a mask): each batch picks its
  /// own.
  Value* pick_broadcast(Builder& b, Value* value, const Spec& spec) {
    const Dim& batches = select_.result()->dim(0);
    const int64_t lost = broadcast_axis(value, spec);
    if (lost < 0) return nullptr;
    Dims shape = value->shape();
    shape[static_cast<size_t>(lost)] = batches;
    value = b.op(ops::kExpand, {value}, {{"size", shape}});
    return pick(b, value, {spec.row, static_cast<int>(lost)});
  }

  /// The dimension of size 1 that stands for the batch: the one the region's node broadcasts.
  int64_t broadcast_axis(const Value* value, const Spec& spec) const {
    const auto it = broadcast_axes_.find(value);
    if (it == broadcast_axes_.end()) return -1;
    const int64_t axis = it->second;
    if (axis < 0 || axis >= value->rank() || axis == spec.row) return -1;
    return value->dim(axis) == Dim(1) ? axis : -1;
  }

  Value* rebuild(Builder& b) {
    // Elementwise operators align operands at the last dimension: where the batch of the result
    // lies in an operand follows from the ranks.
    for (const Node* node : order_) {
      const Entry& entry = region_.at(node);
      if (entry.spec.batch < 0) continue;
      for (size_t i = 0; i < entry.operands.size(); ++i) {
        if (!entry.operands[i] || entry.operands[i]->batch != Spec::kBroadcast) continue;
        const Value* operand = node->operands()[i];
        broadcast_axes_[operand] = entry.spec.batch - (node->result()->rank() - operand->rank());
      }
    }
    std::map<std::pair<Value*, std::pair<int, int>>, Value*> picked;
    const auto at = [&](Value* value, const Spec& spec) -> Value* {
      Value*& slot = picked[{value, {spec.row, spec.batch}}];
      if (slot == nullptr) slot = pick(b, value, spec);
      return slot;
    };
    for (size_t i = order_.size(); i-- > 0;) {
      Node* node = order_[i];
      const Entry& entry = region_.at(node);
      std::vector<Value*> operands = node->operands();
      for (size_t o = 0; o < operands.size(); ++o) {
        if (!entry.operands[o]) continue;
        operands[o] = at(operands[o], *entry.operands[o]);
        if (operands[o] == nullptr) return nullptr;
      }
      NamedAttrs changed;
      const char* sizes = node->is(ops::kReshape)  ? "shape"
                          : node->is(ops::kExpand) ? "size"
                                                   : nullptr;
      if (sizes != nullptr) {
        Dims shape = node->dims(sizes);
        shape[static_cast<size_t>(entry.spec.row)] = select_.result()->dim(root_spec_.row);
        changed.emplace_back(sizes, shape);
      }
      Value* value = b.like(*node, operands, changed);
      if (value == nullptr) return nullptr;
      picked[{node->result(), {entry.spec.row, entry.spec.batch}}] = value;
    }
    return at(select_.operand(0), root_spec_);
  }

  struct Entry {
    Spec spec;
    std::vector<std::optional<Spec>> operands;
  };

  Graph& graph_;
  Node& select_;
  Spec root_spec_;
  std::unordered_map<Value*, std::vector<Request>> requests_;
  std::unordered_map<const Node*, Entry> region_;
  std::vector<Node*> order_;  ///< of the region, last first
  std::unordered_map<const Value*, int64_t> broadcast_axes_;
};

/// A move takes a select past at least one operator, so there are few per operator.
constexpr int kMaxMoves = 10000;

bool is_select(const Node& node) {
  if (node.is(ops::kBatchedSelect)) return true;
  if (!node.is(ops::kSlice)) return false;
  const int64_t axis = node.axis("dim", node.result()->rank());
  return !(node.result()->dim(axis) == node.operand(0)->dim(axis));
}

}  // namespace

Result<int> select_before_project(Graph& graph) {
  int count = 0;
  const auto last = [&] { return graph.nodes().empty() ? nullptr : graph.nodes().back().get(); };
  graph.remove_dead();
  // From the outputs: what one select leaves behind, the next one meets.
  for (Node* node = last(); node != nullptr;) {
    Node* previous = node->previous();
    if (is_select(*node)) {
      DH_ASSIGN(const bool moved, Mover(graph, *node).run());
      if (moved) {
        ++count;
        DH_CHECK(count < kMaxMoves);
        graph.remove_dead();
        previous = last();
      }
    }
    node = previous;
  }
  graph.remove_dead();
  return count;
}

}  // namespace downhaul

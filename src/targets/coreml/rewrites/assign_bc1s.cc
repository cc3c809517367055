// A dataflow pass like assign_nhwc: nodes are visited in order, each sequence is kept in the new
// layout as long as those who read it can be converted too, and goes back where one cannot.
#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ops/ops.h"
#include "passes/elementwise.h"
#include "passes/values.h"
#include "targets/coreml/rewrites/rewrites.h"

namespace downhaul::coreml {
namespace {

int64_t size(const Value* v, int64_t axis) { return v->dim(axis).value(); }

/// Heads of a projection: [B, H, S, d] made of a sequence [B, S, H·d].
struct Heads {
  Value* sequence = nullptr;
  int64_t count = 0;
};

std::optional<Heads> heads_of(const Value* v) {
  if (v->rank() != 4 || v->producer() == nullptr) return std::nullopt;
  const Node* node = v->producer();
  const bool moved = node->is(ops::kPermute) && node->ints("dims") == Ints{0, 2, 1, 3};
  if (moved) node = node->operand(0)->producer();
  // Without a permute there is one position: [B, 1, C] seen as [B, H, 1, d].
  if (node == nullptr || !node->is(ops::kReshape) || (!moved && size(v, 2) != 1))
    return std::nullopt;
  Value* sequence = node->operand(0);
  const int64_t heads = size(v, 1), positions = size(v, 2), width = size(v, 3);
  if (sequence->rank() != 3 || size(sequence, 0) != size(v, 0) || size(sequence, 1) != positions ||
      size(sequence, 2) != heads * width) {
    return std::nullopt;
  }
  return Heads{sequence, heads};
}

class Layouter {
 public:
  explicit Layouter(Graph& graph) : graph_(graph) {}

  Result<int> run() {
    for (Node* node = graph_.first_node(); node != nullptr; node = node->next()) {
      if (made_.contains(node)) continue;
      Builder b(graph_, node);
      b.set_origins(node->origins());
      Value* converted = convert(*node, b);
      DH_TRY(Status(b.status()));
      made_.insert(b.created().begin(), b.created().end());
      if (converted == nullptr) continue;
      sequences_[node->result()] = converted;
      converted_.push_back(node);
    }
    return leave();
  }

 private:
  /// Those that nobody reads any more go; what others read goes back to its layout.
  Result<int> leave() {
    for (auto it = converted_.rbegin(); it != converted_.rend(); ++it) {
      Node* node = *it;
      Value* old = node->result();
      if (old->num_uses() > 0) {
        Builder b(graph_, node->next());
        b.set_origins(node->origins());
        Value* back = original(old, sequences_.at(old), b);
        DH_TRY(Status(b.status()));
        graph_.replace_all_uses(old, back);
      }
      graph_.erase(node);
    }
    graph_.remove_dead();
    return static_cast<int>(converted_.size());
  }

  /// [B, C, 1, S] as what `like` is: [B, S, C], [B, C], or the heads [B, H, S, d].
  static Value* original(const Value* like, Value* x, Builder& b) {
    const Shape& shape = like->shape();
    if (like->rank() == 2) return b.op(ops::kReshape, {x}, {{"shape", Dims(shape)}});
    if (like->rank() == 4) {
      Value* heads =
          b.op(ops::kReshape, {x}, {{"shape", Dims{shape[0], shape[1], shape[3], shape[2]}}});
      return b.op(ops::kPermute, {heads}, {{"dims", Ints{0, 1, 3, 2}}});
    }
    Value* flat = b.op(ops::kReshape, {x}, {{"shape", Dims{shape[0], shape[2], shape[1]}}});
    return b.op(ops::kPermute, {flat}, {{"dims", Ints{0, 2, 1}}});
  }

  bool has(const Value* v) const { return sequences_.contains(v); }

  /// A sequence in the new layout; brought there when it is not yet.
  Value* bc1s(Value* v, Builder& b) {
    const auto known = sequences_.find(v);
    if (known != sequences_.end()) return known->second;
    const Shape& s = v->shape();
    Value* moved = b.op(ops::kPermute, {v}, {{"dims", Ints{0, 2, 1}}});
    Value* out = b.op(ops::kReshape, {moved}, {{"shape", Dims{s[0], s[2], Dim(1), s[1]}}});
    return sequences_[v] = out;
  }

  /// What broadcasts to a sequence of this type; null when it does otherwise.
  Value* broadcast(Value* v, const TensorType& type, Builder& b) {
    if (has(v)) return sequences_.at(v);
    if (v->shape() == type.shape && v->rank() == 3) return bc1s(v, b);
    if (!v->is_constant()) return nullptr;
    const Tensor& t = v->constant();
    if (t.num_elements() == 1) return b.constant(t.reshaped({}), v->name());
    const int64_t channels = type.shape.back().value();
    if (t.num_elements() == channels && t.size(t.rank() - 1) == channels) {
      return b.constant(t.reshaped({1, channels, 1, 1}), v->name());
    }
    // Positions and channels: in front of them nothing but ones.
    if (type.rank() != 3 || t.rank() < 2 || t.num_elements() != channels * t.size(t.rank() - 2) ||
        t.size(t.rank() - 1) != channels) {
      return nullptr;
    }
    Value* flat = b.constant(t.reshaped({1, t.size(t.rank() - 2), channels}), v->name());
    Value* moved = b.op(ops::kPermute, {flat}, {{"dims", Ints{0, 2, 1}}});
    return b.op(ops::kReshape, {moved},
                {{"shape", Dims{Dim(1), Dim(channels), Dim(1), Dim(t.size(t.rank() - 2))}}});
  }

  static bool is_sequence(const Value* v) {
    return v->rank() == 3 && is_float(v->dtype()) && v->type().is_static() && !v->is_constant();
  }

  /// The result of `node` in the new layout, or null.
  Value* convert(Node& node, Builder& b) {
    if (node.num_results() != 1 || node.operands().empty() || node.operand(0) == nullptr) {
      return nullptr;
    }
    Value* x = node.operand(0);
    const bool known = has(x);
    if (node.is(ops::kLinear)) return convert_linear(node, b);
    if (node.is(ops::kLayerNorm)) return convert_norm(node, b);
    if (node.is(ops::kAttention)) return convert_attention(node, b);
    if (known && node.is(ops::kSlice)) return convert_slice(node, b);
    if ((known || joined_.contains(x)) && node.is(ops::kReshape)) return convert_reshape(node, b);
    if (known && node.is(ops::kPermute)) return convert_permute(node);
    if (is_elementwise(node) && is_float(node.result()->dtype()))
      return convert_elementwise(node, b);
    return nullptr;
  }

  Value* convert_linear(Node& node, Builder& b) {
    Value* x = node.operand(0);
    const Value* weight = node.operand(1);
    const Value* bias = node.operand(2);
    if (!(has(x) ? x->rank() <= 3 : is_sequence(x)) || !weight->is_constant() ||
        node.b("weight_transposed") || (bias != nullptr && !bias->is_constant())) {
      return nullptr;
    }
    const Tensor& w = weight->constant();
    Value* filters = b.constant(w.reshaped({w.size(0), w.size(1), 1, 1}), weight->name());
    return b.op(ops::kConv2d, {bc1s(x, b), filters, node.operand(2)}, {}, node.result()->name());
  }

  Value* convert_norm(Node& node, Builder& b) {
    Value* x = node.operand(0);
    if (!(has(x) ? x->rank() <= 3 : is_sequence(x)) || node.ints("normalized_shape").size() != 1) {
      return nullptr;
    }
    return b.op(ops::kChannelNorm, {bc1s(x, b), node.operand("weight"), node.operand("bias")},
                {{"eps", std::max(node.f("eps"), kSmallestEps)}}, node.result()->name());
  }

  Value* convert_elementwise(Node& node, Builder& b) {
    const TensorType& type = node.result()->type();
    const auto& operands = node.operands();
    if (std::none_of(operands.begin(), operands.end(), [&](const Value* v) {
          return v != nullptr && has(v) && v->rank() <= 3 && v->shape() == type.shape;
        })) {
      return nullptr;
    }
    std::vector<Value*> moved;
    for (Value* v : operands) {
      Value* m = v == nullptr ? nullptr : broadcast(v, type, b);
      if (m == nullptr && v != nullptr) return nullptr;
      moved.push_back(m);
    }
    return b.like(node, moved);
  }

  Value* convert_slice(Node& node, Builder& b) {
    if (node.operand(0)->rank() != 3) return nullptr;
    constexpr int64_t kAxis[] = {0, 3, 1};
    const int64_t axis = kAxis[node.axis("dim", 3)];
    return b.like(node, {bc1s(node.operand(0), b)}, {{"dim", axis}});
  }

  /// Only the position of a single one goes, or heads join.
  Value* convert_reshape(Node& node, Builder& b) {
    Value* x = node.operand(0);
    const Shape& from = x->shape();
    const Shape& to = node.result()->shape();
    if (x->rank() == 3 && from[1] == Dim(1) && to == Shape{from[0], from[2]}) return bc1s(x, b);
    if (x->rank() == 2 && to == Shape{from[0], Dim(1), from[1]}) return bc1s(x, b);
    // [B, S, H, d] → [B, S, C] (after the permute), or [B, H, 1, d] → [B, 1, C].
    if (joined_.contains(x) && to.size() == 3 && to[0] == from[0] && to[1] == from[1] &&
        to[2].value() == from[2].value() * from[3].value()) {
      return joined_.at(x);
    }
    if (x->rank() == 4 && !joined_.contains(x) && from[2] == Dim(1) && to.size() == 3 &&
        to[0] == from[0] && to[1] == Dim(1)) {
      return sequences_.at(x);
    }
    return nullptr;
  }

  /// Heads behind positions: known, but in no layout of its own; whoever joins them reads it.
  Value* convert_permute(Node& node) {
    Value* x = node.operand(0);
    if (x->rank() == 4 && node.ints("dims") == Ints{0, 2, 1, 3})
      joined_[node.result()] = sequences_.at(x);
    return nullptr;
  }

  /// Keys on axis 1: [B, Sk, 1, Sq | 1], added to the scores. Empty optional: not for this mask.
  std::optional<Value*> additive_mask(Node& node, Builder& b) {
    const int64_t queries = size(node.operand("query"), 2), keys = size(node.operand("key"), 2);
    Value* mask = node.operand("mask");
    if (mask == nullptr) {
      if (!node.b("is_causal")) return nullptr;
      Tensor t(DType::kF32, {1, keys, 1, queries});
      for (int64_t k = 0; k < keys; ++k) {
        for (int64_t q = 0; q < std::min(k, queries); ++q) t.set(k * queries + q, kMasked);
      }
      return b.constant(std::move(t), "causal_mask");
    }
    Shape shape = mask->shape();
    while (shape.size() < 4) shape.insert(shape.begin(), Dim(1));
    if (shape.size() != 4 || shape[1] != Dim(1)) return std::nullopt;
    const auto known = masks_.find(mask);
    if (known != masks_.end()) return known->second;
    Value* added = mask;
    if (mask->dtype() == DType::kBool) added = from_bool(mask, b);
    if (added->rank() != 4) added = b.op(ops::kReshape, {added}, {{"shape", Dims(shape)}});
    Value* out = nullptr;
    if (shape[2] == Dim(1)) {
      out = b.op(ops::kReshape, {added}, {{"shape", Dims{shape[0], shape[3], Dim(1), Dim(1)}}});
    } else {
      out = b.op(ops::kPermute, {added}, {{"dims", Ints{0, 3, 1, 2}}});
    }
    masks_[mask] = out;
    return out;
  }

  /// (1 - m) · -1e4 for an integer mask m seen as a bool, not(m) · -1e4 for any other.
  static Value* from_bool(Value* mask, Builder& b) {
    const Node* node = mask->producer();
    Value* source = mask;
    while (node != nullptr && node->is(ops::kReshape)) {
      source = node->operand(0);
      node = source->producer();
    }
    Value* out = nullptr;
    if (node != nullptr && node->is(ops::kCast) && !is_float(node->operand(0)->dtype()) &&
        node->operand(0)->dtype() != DType::kBool) {
      Value* m = node->operand(0);
      out = b.op(ops::kSub, {b.scalar(m->dtype(), 1), m});
    } else {
      out = b.op(ops::kLogicalNot, {source});
    }
    out = b.op(ops::kCast, {out}, {{"dtype", DType::kF32}});
    out = b.op(ops::kMul, {out, b.scalar(DType::kF32, kMasked)});
    if (out != nullptr && out->shape() != mask->shape()) {
      out = b.op(ops::kReshape, {out}, {{"shape", Dims(mask->shape())}});
    }
    return out;
  }

  Value* convert_attention(Node& node, Builder& b) {
    const auto q = heads_of(node.operand("query")), k = heads_of(node.operand("key")),
               v = heads_of(node.operand("value"));
    if (!q || !k || !v || q->count != k->count || q->count != v->count) return nullptr;
    for (const Heads* h : {&*q, &*k, &*v}) {
      if (!has(h->sequence) && !is_sequence(h->sequence)) return nullptr;
    }
    const auto mask = additive_mask(node, b);
    if (!mask) return nullptr;
    const int64_t width = size(node.operand("query"), 3);
    const int64_t value_width = size(node.operand("value"), 3);
    const double scale =
        node.has_attr("scale") ? node.f("scale") : 1 / std::sqrt(static_cast<double>(width));
    Value* queries = bc1s(q->sequence, b);
    Value* keys = b.op(ops::kPermute, {bc1s(k->sequence, b)}, {{"dims", Ints{0, 3, 2, 1}}});
    Value* values = bc1s(v->sequence, b);
    const auto part = [&](Value* from, int64_t axis, int64_t each, int64_t head) {
      return b.op(ops::kSlice, {from},
                  {{"dim", axis}, {"start", Dim(head * each)}, {"end", Dim((head + 1) * each)}});
    };
    Value* factor = b.scalar(DType::kF32, scale);
    // All slices before the products: a target may take them apart in one step.
    std::vector<Value*> qs, ks, vs, contexts;
    for (int64_t h = 0; h < q->count; ++h) qs.push_back(part(queries, 1, width, h));
    for (int64_t h = 0; h < q->count; ++h) ks.push_back(part(keys, 3, width, h));
    for (int64_t h = 0; h < q->count; ++h) vs.push_back(part(values, 1, value_width, h));
    for (size_t h = 0; h < qs.size(); ++h) {
      Value* scores = b.op(ops::kChannelMatmul, {ks[h], qs[h]});
      scores = b.op(ops::kMul, {scores, factor});
      if (*mask != nullptr) scores = b.op(ops::kAdd, {scores, *mask});
      Value* weights = b.op(ops::kSoftmax, {scores}, {{"dim", int64_t{1}}});
      contexts.push_back(b.op(ops::kChannelMatmul, {vs[h], weights}));
    }
    return b.op(ops::kConcat, contexts, {{"dim", int64_t{1}}}, node.result()->name());
  }

  Graph& graph_;
  std::unordered_map<const Value*, Value*> sequences_;  ///< [B, S, C], [B, C], heads → [B, C, 1, S]
  std::unordered_map<const Value*, Value*> joined_;     ///< [B, S, H, d] → [B, C, 1, S]
  std::unordered_map<const Value*, Value*> masks_;
  std::vector<Node*> converted_;
  std::unordered_set<const Node*> made_;
};

}  // namespace

Result<int> assign_bc1s(Graph& graph) { return Layouter(graph).run(); }

Result<int> keep_wide_outputs(Graph& graph) {
  int64_t width = 0;
  for (const auto& node : graph.nodes()) {
    if (node->is(ops::kChannelNorm)) width = std::max(width, size(node->operand(0), 1));
  }
  int count = 0;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const Node* moved = graph.outputs()[i].value->producer();
    if (width == 0 || moved == nullptr || !moved->is(ops::kPermute) ||
        moved->ints("dims") != Ints{0, 2, 1}) {
      continue;
    }
    const Node* flat = moved->operand(0)->producer();
    if (flat == nullptr || !flat->is(ops::kReshape)) continue;
    Value* x = flat->operand(0);
    if (x->rank() != 4 || size(x, 2) != 1 || size(x, 1) < width ||
        size(x, 1) != size(moved->operand(0), 1)) {
      continue;
    }
    graph.set_output(i, x);
    ++count;
  }
  return count;
}

}  // namespace downhaul::coreml

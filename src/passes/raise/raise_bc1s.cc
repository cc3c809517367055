// Sequences laid out as images, [B, C, 1, S], back to [B, S, C]: what programs for devices hold
// whose last dimension should be the long one. The inverse of the Core ML target's assign_bc1s.
//
// A 1x1 convolution becomes linear, channel_norm layer_norm, and what is elementwise between them
// follows, as do slices and views. Attention that was taken apart head by head (slices of query,
// key and value, a product, scales and masks, softmax over the keys, a product, one concat) becomes
// the same chain for all heads at once, which raise_attention knows. Values cross between the
// layouts only where someone needs the other.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ops/ops.h"
#include "passes/elementwise.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul {

namespace {

const Ints kSwapLastOfThree = {0, 2, 1};
const Ints kKeysInFront = {0, 3, 2, 1};
/// [B, keys, 1, queries] to [B, 1, queries, keys].
const Ints kKeysLast = {0, 2, 3, 1};

bool is_bc1s(const Value* v) {
  return v != nullptr && v->rank() == 4 && v->dim(2) == Dim(1) && is_float(v->dtype()) &&
         v->dim(1).is_static();
}

bool is_permute(const Value* v, const Ints& dims) {
  return is_op(v, ops::kPermute) && v->producer()->ints("dims") == dims;
}

/// [B, C, 1, S] of [B, C, S], and the other way round.
bool is_squeezed(const Value* four, const Value* three) {
  return four->rank() == 4 && three->rank() == 3 && four->dim(2) == Dim(1) &&
         four->dim(0) == three->dim(0) && four->dim(1) == three->dim(1) &&
         four->dim(3) == three->dim(2);
}

/// A range of channels: `transposed` [B, S, 1, part] rather than [B, part, 1, S].
struct Part {
  Value* source = nullptr;  ///< [B, C, 1, S]
  int64_t begin = 0, end = 0;
  bool transposed = false;
};

std::optional<Part> part_of(Value* v) {
  Part part;
  if (is_permute(v, kKeysInFront)) {
    part.transposed = true;
    v = v->producer()->operand(0);
  }
  if (!is_op(v, ops::kSlice)) return std::nullopt;
  const Node& slice = *v->producer();
  const int64_t axis = slice.axis("dim", v->rank());
  if (!slice.dim("start").is_static() || !slice.dim("end").is_static() || slice.i("step") != 1) {
    return std::nullopt;
  }
  part.begin = slice.dim("start").value();
  part.end = slice.dim("end").value();
  part.source = slice.operand(0);
  if (!part.transposed && axis == 3 && is_permute(part.source, kKeysInFront)) {
    part.transposed = true;
    part.source = part.source->producer()->operand(0);
    return part;
  }
  return axis == 1 ? std::optional(part) : std::nullopt;
}

/// An operator on scores; `scores` is the operand that they are.
struct Step {
  const Node* node;
  size_t scores;
};

/// One head: values · softmax(scale and mask (keys · queries)).
struct Head {
  Part query, key, value;
  std::vector<Step> chain;  ///< from the product to softmax
};

/// Follows scores back to the product that they come from.
Node* trace_scores(Value* scores, std::vector<Step>& chain, int depth = 8) {
  if (!scores->has_one_use() || scores->producer() == nullptr || depth == 0) return nullptr;
  Node* node = scores->producer();
  if (node->is(ops::kChannelMatmul)) return node;
  if (!is_elementwise(*node)) return nullptr;
  for (size_t i = 0; i < node->operands().size(); ++i) {
    Value* v = node->operands()[i];
    if (v == nullptr || !(v->type() == scores->type())) continue;
    Node* product = trace_scores(v, chain, depth - 1);
    if (product == nullptr) continue;
    chain.push_back({node, i});
    return product;
  }
  return nullptr;
}

std::optional<Head> head_of(Value* context) {
  if (!is_op(context, ops::kChannelMatmul) || !context->has_one_use()) return std::nullopt;
  Value* weights = context->producer()->operand(1);
  if (!is_op(weights, ops::kSoftmax) || !weights->has_one_use() ||
      weights->producer()->axis("dim", 4) != 1) {
    return std::nullopt;
  }
  Head head;
  const Node* product = trace_scores(weights->producer()->operand(0), head.chain);
  if (product == nullptr) return std::nullopt;
  const auto value = part_of(context->producer()->operand(0));
  const auto key = part_of(product->operand(0));
  const auto query = part_of(product->operand(1));
  if (!value || !key || !query || value->transposed || !key->transposed || query->transposed) {
    return std::nullopt;
  }
  head.value = *value;
  head.key = *key;
  head.query = *query;
  return head;
}

class Raiser {
 public:
  explicit Raiser(Graph& graph) : graph_(graph) {}

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
      converted_.insert(node);
    }
    if (converted_.empty()) return 0;
    return leave();
  }

 private:
  /// From the end: what nobody reads any more goes, what others read goes back to its layout.
  Result<int> leave() {
    const auto count = static_cast<int>(converted_.size());
    Node* node = graph_.first_node();
    while (node->next() != nullptr) node = node->next();
    while (node != nullptr) {
      Node* previous = node->previous();
      if (converted_.contains(node) && node->result()->num_uses() > 0) {
        Value* old = node->result();
        Builder b(graph_, node->next());
        b.set_origins(node->origins());
        Value* back = original(old, sequences_.at(old), b);
        DH_TRY(Status(b.status()));
        if (back != old) graph_.replace_all_uses(old, back);
      }
      bool is_used = false;
      for (int r = 0; r < node->num_results(); ++r) {
        is_used = is_used || node->result(r)->num_uses() > 0;
      }
      if (!is_used) graph_.erase(node);
      node = previous;
    }
    graph_.remove_dead();
    return count;
  }

  /// [B, S, C] as the value it stands for.
  static Value* original(const Value* like, Value* x, Builder& b) {
    if (x->type() == like->type()) return x;
    if (x->dim(1) == Dim(1) || x->dim(2) == Dim(1)) {
      return b.op(ops::kReshape, {x}, {{"shape", Dims(like->shape())}});
    }
    Value* moved = b.op(ops::kPermute, {x}, {{"dims", kSwapLastOfThree}});
    return like->rank() == 3 ? moved
                             : b.op(ops::kReshape, {moved}, {{"shape", Dims(like->shape())}});
  }

  bool has(const Value* v) const { return sequences_.contains(v); }

  Value* sequence(Value* v, Builder& b) {
    const auto known = sequences_.find(v);
    if (known != sequences_.end()) return known->second;
    Value* flat = nullptr;
    if (is_op(v, ops::kReshape) && is_squeezed(v, v->producer()->operand(0))) {
      flat = v->producer()->operand(0);
      if (is_permute(flat, kSwapLastOfThree)) {
        return sequences_[v] = flat->producer()->operand(0);
      }
    } else {
      flat = b.op(ops::kReshape, {v}, {{"shape", Dims{v->dim(0), v->dim(1), v->dim(3)}}});
    }
    return sequences_[v] = b.op(ops::kPermute, {flat}, {{"dims", kSwapLastOfThree}});
  }

  /// The [B, S, C] form of a node's result, or null.
  Value* convert(Node& node, Builder& b) {
    if (node.num_results() != 1 || node.operands().empty() || node.operand(0) == nullptr) {
      return nullptr;
    }
    Value* x = node.operand(0);
    if (node.is(ops::kConv2d)) return convert_conv(node, b);
    if (node.is(ops::kChannelNorm)) return convert_norm(node, b);
    if (node.is(ops::kConcat)) return convert_concat(node, b);
    if (has(x) && node.is(ops::kSlice)) return convert_slice(node, b);
    if (has(x) && (node.is(ops::kReshape) || node.is(ops::kPermute))) return convert_view(node, b);
    if (is_elementwise(node) && is_float(node.result()->dtype())) {
      return convert_elementwise(node, b);
    }
    return nullptr;
  }

  Value* convert_conv(Node& node, Builder& b) {
    Value* x = node.operand(0);
    const Value* weight = node.operand("weight");
    const Value* bias = node.operand("bias");
    // A picture of one pixel stays one, unless it is a row of a sequence.
    if (!is_bc1s(x) || (!has(x) && x->dim(3) == Dim(1)) || node.s("layout") != "nchw" ||
        node.i("groups") != 1 || !weight->is_constant() ||
        (bias != nullptr && !bias->is_constant())) {
      return nullptr;
    }
    const auto all = [&](const char* name, int64_t wanted) {
      const Ints& list = node.ints(name);
      return std::all_of(list.begin(), list.end(), [&](int64_t v) { return v == wanted; });
    };
    const Tensor& w = weight->constant();
    if (w.size(2) != 1 || w.size(3) != 1 || !all("stride", 1) || !all("padding", 0)) return nullptr;
    Value* matrix = b.constant(w.reshaped({w.size(0), w.size(1)}), weight->name());
    return b.op(ops::kLinear, {sequence(x, b), matrix, node.operand("bias")}, {},
                node.result()->name());
  }

  Value* convert_norm(Node& node, Builder& b) {
    Value* x = node.operand(0);
    if (!is_bc1s(x)) return nullptr;
    return b.op(ops::kLayerNorm, {sequence(x, b), node.operand("weight"), node.operand("bias")},
                {{"normalized_shape", Ints{x->dim(1).value()}}, {"eps", node.f("eps")}},
                node.result()->name());
  }

  /// What broadcasts to [B, S, C]; null when it does otherwise.
  Value* broadcast(Value* v, const TensorType& type, Builder& b) {
    if (has(v) && v->shape() == type.shape) return sequences_.at(v);
    if (v->shape() == type.shape && is_float(v->dtype()) && !v->is_constant()) {
      return sequence(v, b);
    }
    if (!v->is_constant()) return nullptr;
    const Tensor& t = v->constant();
    if (t.num_elements() == 1) return b.constant(t.reshaped({}), v->name());
    if (t.rank() < 3 || t.rank() > 4) return nullptr;
    const size_t front = static_cast<size_t>(t.rank()) - 3;  // [C, 1, S] is [1, C, 1, S]
    const int64_t batch = front == 1 ? t.size(0) : 1;
    const int64_t channels = t.sizes()[front];
    const int64_t positions = t.sizes()[front + 2];
    if (batch == 1 && positions == 1) return b.constant(t.reshaped({channels}), v->name());
    Value* flat = b.constant(t.reshaped({batch, channels, positions}), v->name());
    return b.op(ops::kPermute, {flat}, {{"dims", kSwapLastOfThree}});
  }

  Value* convert_elementwise(Node& node, Builder& b) {
    const TensorType& type = node.result()->type();
    const auto& operands = node.operands();
    if (type.rank() != 4 || std::none_of(operands.begin(), operands.end(), [&](const Value* v) {
          return v != nullptr && has(v) && v->shape() == type.shape;
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
    constexpr int64_t kAxis[] = {0, 2, -1, 1};
    if (node.operand(0)->rank() != 4) return nullptr;
    const int64_t axis = kAxis[node.axis("dim", 4)];
    if (axis < 0) return nullptr;
    return b.like(node, {sequences_.at(node.operand(0))}, {{"dim", axis}});
  }

  /// Views that only lose the dimension of size 1, and the permute behind that: the sequence
  /// itself. A single channel or position may take any shape, as its elements are in order.
  Value* convert_view(Node& node, Builder& b) {
    Value* x = node.operand(0);
    Value* result = node.result();
    Value* seq = sequences_.at(x);
    if (node.is(ops::kPermute)) {
      if (x->rank() == 3 && node.ints("dims") == kSwapLastOfThree) {
        graph_.replace_all_uses(result, seq);
      }
      return nullptr;
    }
    if (x->rank() == 4 && is_squeezed(x, result)) return seq;
    if (x->dim(1) == Dim(1) || x->dim(x->rank() - 1) == Dim(1)) {
      Value* view = b.op(ops::kReshape, {seq}, {{"shape", Dims(result->shape())}});
      if (view != nullptr) graph_.replace_all_uses(result, view);
    }
    return nullptr;
  }

  Value* convert_concat(Node& node, Builder& b) {
    if (node.result()->rank() != 4 || !is_bc1s(node.result())) return nullptr;
    const std::vector<Value*> parts = node.list();
    if (node.axis("dim", 4) == 1) {
      if (Value* attention = convert_attention(parts, b)) return attention;
    }
    if (!std::all_of(parts.begin(), parts.end(), [&](const Value* v) { return has(v); })) {
      return nullptr;
    }
    constexpr int64_t kAxis[] = {0, 2, -1, 1};
    const int64_t axis = kAxis[node.axis("dim", 4)];
    if (axis < 0) return nullptr;
    std::vector<Value*> moved;
    for (Value* v : parts) moved.push_back(sequences_.at(v));
    return b.op(ops::kConcat, moved, {{"dim", axis}}, node.result()->name());
  }

  /// All heads in the order of the concat, alike but for the channels that each takes.
  static bool are_alike(const std::vector<Head>& heads) {
    const auto in_order = [&](Part Head::* part) {
      const int64_t width = (heads[0].*part).end;
      for (size_t h = 0; h < heads.size(); ++h) {
        const Part& p = heads[h].*part;
        if (p.source != (heads[0].*part).source || p.begin != static_cast<int64_t>(h) * width ||
            p.end != p.begin + width) {
          return false;
        }
      }
      const Value* source = (heads[0].*part).source;
      return is_bc1s(source) && source->dim(1) == Dim(width * static_cast<int64_t>(heads.size()));
    };
    if (!in_order(&Head::query) || !in_order(&Head::key) || !in_order(&Head::value)) return false;
    return std::all_of(heads.begin(), heads.end(), [&](const Head& head) {
      return std::equal(head.chain.begin(), head.chain.end(), heads[0].chain.begin(),
                        heads[0].chain.end(), is_same_step);
    });
  }

  /// The same operator with the same operands but for the scores.
  static bool is_same_step(const Step& a, const Step& b) {
    if (&a.node->op() != &b.node->op() || !(a.node->attrs() == b.node->attrs()) ||
        a.scores != b.scores || a.node->operands().size() != b.node->operands().size()) {
      return false;
    }
    for (size_t i = 0; i < a.node->operands().size(); ++i) {
      if (i != a.scores && a.node->operands()[i] != b.node->operands()[i]) return false;
    }
    return true;
  }

  /// Scales and masks of the scores, which are [B, H, queries, keys] now; null when one of them
  /// does not broadcast.
  static Value* rebuild_chain(const std::vector<Step>& chain, Value* scores, Builder& b) {
    for (const Step& step : chain) {
      std::vector<Value*> operands = step.node->operands();
      for (size_t i = 0; i < operands.size(); ++i) {
        Value*& v = operands[i];
        if (i == step.scores) {
          v = scores;
        } else if (v == nullptr || v->rank() == 0) {
          continue;
        } else if (v->rank() == 4 && v->dim(2) == Dim(1)) {
          v = b.op(ops::kPermute, {v}, {{"dims", kKeysLast}});
        } else if (v->is_constant() && v->constant().num_elements() == 1) {
          v = b.constant(v->constant().reshaped({}), v->name());
        } else {
          return nullptr;
        }
      }
      scores = b.like(*step.node, operands);
      if (scores == nullptr) return nullptr;
    }
    return scores;
  }

  Value* heads(const Part& part, size_t count, Builder& b) {
    Value* x = sequence(part.source, b);
    Value* split = b.op(
        ops::kReshape, {x},
        {{"shape", Dims{x->dim(0), x->dim(1), Dim(static_cast<int64_t>(count)), Dim(part.end)}}});
    return b.op(ops::kPermute, {split}, {{"dims", Ints{0, 2, 1, 3}}});
  }

  Value* convert_attention(const std::vector<Value*>& parts, Builder& b) {
    std::vector<Head> all;
    for (Value* part : parts) {
      const auto head = head_of(part);
      if (!head) return nullptr;
      all.push_back(*head);
    }
    if (!are_alike(all)) return nullptr;
    const Head& first = all[0];
    for (const Part* part : {&first.query, &first.key, &first.value}) {
      if (!has(part->source)) return nullptr;
    }
    Value* query = heads(first.query, all.size(), b);
    Value* key = heads(first.key, all.size(), b);
    Value* value = heads(first.value, all.size(), b);
    Value* scores = b.op(ops::kMatmul, {query, key}, {{"transpose_other", true}});
    scores = rebuild_chain(first.chain, scores, b);
    if (scores == nullptr) return nullptr;
    Value* weights = b.op(ops::kSoftmax, {scores}, {{"dim", int64_t{-1}}});
    Value* context = b.op(ops::kMatmul, {weights, value});
    Value* joined = b.op(ops::kPermute, {context}, {{"dims", Ints{0, 2, 1, 3}}});
    if (joined == nullptr) return nullptr;
    return b.op(ops::kReshape, {joined},
                {{"shape", Dims{joined->dim(0), joined->dim(1),
                                Dim(first.value.end * static_cast<int64_t>(all.size()))}}});
  }

  Graph& graph_;
  std::unordered_map<const Value*, Value*> sequences_;  ///< [B, C, 1, S] or [B, C, S] → [B, S, C]
  std::unordered_set<const Node*> converted_;
  std::unordered_set<const Node*> made_;
};

}  // namespace

Result<int> raise_bc1s(Graph& graph) { return Raiser(graph).run(); }

}  // namespace downhaul

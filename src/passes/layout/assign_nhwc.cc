// Images in channels-last order.
//
// Image operators (convolution, pooling, resampling) become their layout="nhwc" form; everything
// that works element by element, or along dimensions that can be renamed (concat, slice, pad,
// reductions, softmax), follows them where its operands are channels-last already. A permute stands
// only where a value crosses between the two orders, one per value. Which side an operator between
// falls to is decided by elements: it turns channels-last when at least half of what it reads is.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "ops/ops.h"
#include "passes/elementwise.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul {

namespace {

const Ints kToNhwc = {0, 2, 3, 1};
const Ints kToNchw = {0, 3, 1, 2};
/// Where each NCHW dimension lies in NHWC.
constexpr std::array<int64_t, 4> kPosition = {0, 3, 1, 2};

bool has_argument(const Node& node, std::string_view name, ArgKind kind) {
  const SchemaArg* arg = node.schema().find(name);
  return arg != nullptr && arg->kind == kind;
}

/// What can say in which order its images are.
bool is_image_op(const Node& node) {
  return node.num_results() == 1 && has_argument(node, "layout", ArgKind::kString);
}

bool is_reduction(const Node& node) {
  return node.num_results() == 1 && has_argument(node, "dims", ArgKind::kInts) &&
         has_argument(node, "keepdim", ArgKind::kBool);
}

class Layouter {
 public:
  explicit Layouter(Graph& graph) : graph_(graph) {}

  Result<int> run() {
    bool any = false;
    for (const auto& node : graph_.nodes()) {
      any = any || (is_image_op(*node) && node->s("layout") == "nchw");
    }
    if (!any) return 0;
    for (Node* node = graph_.first_node(); node != nullptr;) {
      Node* next = node->next();
      DH_TRY(visit(*node));
      node = next;
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      Value* value = graph_.outputs()[i].value;
      if (!is_virtual(value)) continue;
      DH_ASSIGN(value, nchw(value, nullptr));
      graph_.set_output(i, value);
    }
    for (const StateUpdate& update : graph_.state_updates()) {
      if (!is_virtual(update.value)) continue;
      DH_ASSIGN(Value * value, nchw(update.value, nullptr));
      graph_.set_state_update(update.state, value);
    }
    graph_.remove_dead();
    return count_;
  }

 private:
  /// True for a result that exists channels-last now; its old node is dead.
  bool is_virtual(const Value* value) const { return replaced_.contains(value); }

  Result<Value*> permute(Value* value, const Ints& dims, Node* before) {
    DH_ASSIGN(Node * node, graph_.insert(before, ops::kPermute, {value}, {{"dims", dims}}));
    return node->result();
  }

  /// The channels-last form of a value of rank 4.
  Result<Value*> nhwc(Value* value, Node* before) {
    if (const auto it = nhwc_.find(value); it != nhwc_.end()) return it->second;
    Value* result = nullptr;
    if (is_op(value, ops::kPermute) && value->producer()->ints("dims") == kToNchw) {
      result = value->producer()->operand(0);
    } else {
      DH_ASSIGN(result, permute(value, kToNhwc, before));
    }
    nhwc_[value] = result;
    return result;
  }

  Result<Value*> nchw(Value* value, Node* before) {
    if (const auto it = nchw_.find(value); it != nchw_.end()) return it->second;
    DH_ASSIGN(Value * result, permute(nhwc_.at(value), kToNchw, before));
    nchw_[value] = result;
    return result;
  }

  /// True when the value costs nothing channels-last.
  bool has_nhwc(const Value* value) const {
    return nhwc_.contains(value) ||
           (is_op(value, ops::kPermute) && value->producer()->ints("dims") == kToNchw);
  }

  /// An operand of an elementwise operator of rank 4, aligned at the last dimension.
  Result<Value*> broadcast_operand(Value* value, Node* before) {
    if (value == nullptr || value->rank() == 0) return value;
    if (value->rank() == 4) return nhwc(value, before);
    Dims shape(static_cast<size_t>(4 - value->rank()), Dim(1));
    shape.insert(shape.end(), value->shape().begin(), value->shape().end());
    DH_ASSIGN(Node * node, graph_.insert(before, ops::kReshape, {value}, {{"shape", shape}}));
    return permute(node->result(), kToNhwc, before);
  }

  /// The old result stands for `value` from now on, permuted where someone needs it in NCHW.
  void replace(Node& node, Node* with) {
    with->add_origins(node.origins());
    Value* old = node.result();
    nhwc_[old] = with->result();
    replaced_.insert({old, true});
    ++count_;
  }

  Status visit(Node& node) {
    if (is_image_op(node) && node.s("layout") == "nchw") return convert_image(node);
    if (node.num_results() == 1 && prefers_nhwc(node)) {
      DH_ASSIGN(const bool done, convert_follower(node));
      if (done) return {};
    }
    for (size_t i = 0; i < node.operands().size(); ++i) {
      Value* operand = node.operands()[i];
      if (operand == nullptr || !is_virtual(operand)) continue;
      DH_ASSIGN(Value * value, nchw(operand, &node));
      graph_.set_operand(&node, static_cast<int>(i), value);
    }
    return {};
  }

  Status convert_image(Node& node) {
    std::vector<Value*> operands = node.operands();
    DH_ASSIGN(operands[0], nhwc(operands[0], &node));
    DH_ASSIGN(Node * converted,
              graph_.insert_like(&node, node, operands, {{"layout", std::string("nhwc")}}));
    replace(node, converted);
    return {};
  }

  /// At least half of the image elements it reads are channels-last.
  bool prefers_nhwc(const Node& node) const {
    int64_t have = 0;
    int64_t lack = 0;
    for (const Value* operand : node.operands()) {
      if (operand == nullptr || operand->rank() != 4 || operand->is_constant()) continue;
      (has_nhwc(operand) ? have : lack) += max_bytes(operand->type()) / 2;
    }
    return have > 0 && have >= lack;
  }

  Result<bool> convert_follower(Node& node) {
    if (is_elementwise(node) && node.result()->rank() == 4) return convert_elementwise(node);
    if (node.operands().empty() || node.operands()[0] == nullptr ||
        node.operands()[0]->rank() != 4) {
      return false;
    }
    if (is_reduction(node)) return convert_reduction(node);
    if (node.is(ops::kArgmax) || node.is(ops::kArgmin)) return convert_argmax(node);
    if (node.is(ops::kConcat) || node.is(ops::kSlice) || node.is(ops::kSoftmax) ||
        node.is(ops::kLogSoftmax)) {
      return convert_along_axis(node);
    }
    if (node.is(ops::kPad)) return convert_pad(node);
    return false;
  }

  Result<bool> convert_elementwise(Node& node) {
    std::vector<Value*> operands;
    for (Value* operand : node.operands()) {
      DH_ASSIGN(Value * value, broadcast_operand(operand, &node));
      operands.push_back(value);
    }
    DH_ASSIGN(Node * converted, graph_.insert_like(&node, node, operands));
    replace(node, converted);
    return true;
  }

  Result<bool> convert_along_axis(Node& node) {
    std::vector<Value*> operands;
    for (Value* operand : node.operands()) {
      DH_ASSIGN(Value * value, nhwc(operand, &node));
      operands.push_back(value);
    }
    const int64_t axis = kPosition[static_cast<size_t>(node.axis("dim", 4))];
    DH_ASSIGN(Node * converted, graph_.insert_like(&node, node, operands, {{"dim", axis}}));
    replace(node, converted);
    return true;
  }

  Result<bool> convert_pad(Node& node) {
    const auto moved = [](const Ints& v) { return Ints{v[0], v[2], v[3], v[1]}; };
    DH_ASSIGN(Value * x, nhwc(node.operand(0), &node));
    DH_ASSIGN(Node * converted, graph_.insert_like(&node, node, {x},
                                                   {{"before", moved(node.ints("before"))},
                                                    {"after", moved(node.ints("after"))}}));
    replace(node, converted);
    return true;
  }

  /// With keepdim the result is an image; without, the remaining dimensions must keep their order.
  Result<bool> convert_reduction(Node& node) {
    Ints dims;
    for (const int64_t d : node.ints("dims")) dims.push_back(kPosition[static_cast<size_t>(d)]);
    std::sort(dims.begin(), dims.end());
    if (!node.b("keepdim") && !order_survives(node.ints("dims"))) return false;
    DH_ASSIGN(Value * x, nhwc(node.operand(0), &node));
    DH_ASSIGN(Node * converted, graph_.insert_like(&node, node, {x}, {{"dims", dims}}));
    finish(node, converted);
    return true;
  }

  Result<bool> convert_argmax(Node& node) {
    const int64_t axis = node.axis("dim", 4);
    if (!node.b("keepdim") && !order_survives({axis})) return false;
    DH_ASSIGN(Value * x, nhwc(node.operand(0), &node));
    DH_ASSIGN(
        Node * converted,
        graph_.insert_like(&node, node, {x}, {{"dim", kPosition[static_cast<size_t>(axis)]}}));
    finish(node, converted);
    return true;
  }

  void finish(Node& node, Node* converted) {
    if (node.b("keepdim")) {
      replace(node, converted);
    } else {
      converted->add_origins(node.origins());
      graph_.replace_all_uses(node.result(), converted->result());
      ++count_;
    }
  }

  /// True when the dimensions that are not reduced follow each other alike in both orders.
  static bool order_survives(const Ints& reduced) {
    int64_t last = -1;
    for (int64_t d = 0; d < 4; ++d) {
      if (std::find(reduced.begin(), reduced.end(), d) != reduced.end()) continue;
      if (kPosition[static_cast<size_t>(d)] < last) return false;
      last = kPosition[static_cast<size_t>(d)];
    }
    return true;
  }

  Graph& graph_;
  std::unordered_map<const Value*, Value*> nhwc_;
  std::unordered_map<const Value*, Value*> nchw_;
  std::unordered_map<const Value*, bool> replaced_;
  int count_ = 0;
};

}  // namespace

Result<int> assign_nhwc(Graph& graph) { return Layouter(graph).run(); }

}  // namespace downhaul

#include "report/masked_rows.h"

#include <cmath>
#include <iterator>
#include <unordered_map>

#include "base/strings.h"
#include "ops/evaluate.h"
#include "ops/ops.h"

namespace downhaul {
namespace {

/// A value that is a mask, and what reads it.
struct Mask {
  const Node* reader;
  const Value* value;
  bool chosen = false;  ///< of where(mask, scores, filling): false picks the filling
  double filling = 0;
};

/// No product of matrices and no convolution is behind it: not scores.
class Cheap {
 public:
  bool operator()(const Value* value) {
    const auto [it, fresh] = known_.emplace(value, true);
    if (!fresh) return it->second;
    const Node* node = value->producer();
    bool cheap = true;
    if (node != nullptr) {
      cheap = node->op().multiply_adds == nullptr;
      for (const Value* operand : node->operands()) {
        if (operand != nullptr && cheap) cheap = (*this)(operand);
      }
    }
    known_[value] = cheap;
    return cheap;
  }

 private:
  std::unordered_map<const Value*, bool> known_;
};

/// What masks the scores that softmax `node` reads.
void add_softmax_masks(const Node& node, Cheap& cheap, std::vector<Mask>& masks) {
  const Value* scores = node.operand(0);
  if (node.axis("dim", scores->rank()) != scores->rank() - 1) return;
  const Node* maker = scores->producer();
  if (maker == nullptr) return;
  if (maker->is(ops::kAdd)) {
    for (const Value* operand : maker->operands()) {
      if (cheap(operand) && is_float(operand->dtype())) masks.push_back({&node, operand});
    }
  } else if (maker->is(ops::kWhere)) {
    const Value* filling = maker->operand(2);
    double value = 0;
    if (cheap(maker->operand(0)) && filling->is_constant() &&
        filling->constant().is_splat(&value)) {
      masks.push_back({&node, maker->operand(0), true, value});
    }
  }
}

constexpr double kLowest = -1e4;

/// Counts rows along the last axis that let nothing through.
std::vector<MaskedRows> look_at(const Mask& mask, const Tensor& t, std::string place) {
  const int64_t width = t.rank() == 0 ? 1 : t.sizes().back();
  const bool attention = mask.reader->is(ops::kAttention);
  MaskedRows infinite{place, 0, 0,
                      attention ? MaskedRows::Effect::kZeros : MaskedRows::Effect::kNan};
  MaskedRows finite{std::move(place), 0, 0, MaskedRows::Effect::kIgnored};
  if (width == 0) return {};
  infinite.of = finite.of = t.num_elements() / width;
  for (int64_t row = 0; row < infinite.of; ++row) {
    bool all_masked = true;
    bool all_infinite = true;
    for (int64_t i = 0; i < width && all_masked; ++i) {
      const double v = t.at(row * width + i);
      double added = v;
      if (t.dtype() == DType::kBool) {
        added = v != 0 ? 0 : mask.chosen ? mask.filling : -INFINITY;
      }
      all_masked = added <= kLowest;
      all_infinite = all_infinite && std::isinf(added);
    }
    if (all_masked) ++(all_infinite ? infinite : finite).rows;
  }
  std::vector<MaskedRows> out;
  if (infinite.rows > 0) out.push_back(std::move(infinite));
  if (finite.rows > 0) out.push_back(std::move(finite));
  return out;
}

std::string place_of(const Node& node) {
  if (node.origins().empty()) return cat(node.op_name(), " ", node.result()->name());
  const Origin& origin = node.graph().origins[static_cast<size_t>(node.origins().back())];
  return cat(node.op_name(), " ", origin.name,
             origin.module_path.empty() ? "" : cat(" in ", origin.module_path));
}

}  // namespace

Result<std::vector<MaskedRows>> find_masked_rows(const Graph& graph,
                                                 const std::vector<Tensor>& inputs) {
  std::vector<Mask> masks;
  Cheap cheap;
  for (const auto& node : graph.nodes()) {
    if (node->is(ops::kAttention)) {
      const Value* mask = node->operand("mask");
      if (mask != nullptr && cheap(mask)) masks.push_back({node.get(), mask});
    } else if (node->is(ops::kSoftmax)) {
      add_softmax_masks(*node, cheap, masks);
    }
  }
  std::vector<MaskedRows> out;
  if (masks.empty()) return out;
  // A copy that computes the masks and nothing else.
  const std::unique_ptr<Graph> small = graph.clone();
  while (!small->outputs().empty()) small->remove_output(0);
  for (const Mask& mask : masks) {
    small->add_output(small->find_value(mask.value->name()), mask.value->name());
  }
  small->remove_dead();
  DH_ASSIGN(const std::vector<Tensor> values, evaluate(*small, inputs));
  for (size_t m = 0; m < masks.size(); ++m) {
    auto found = look_at(masks[m], values[m], place_of(*masks[m].reader));
    out.insert(out.end(), std::make_move_iterator(found.begin()),
               std::make_move_iterator(found.end()));
  }
  return out;
}

std::string print(const MaskedRows& rows) {
  constexpr const char* kEffect[] = {"their result is 0",
                                     "softmax over -inf alone gives NaN there, unless the "
                                     "program replaces it",
                                     "but by a finite number: softmax ignores it there"};
  return cat(printable(rows.place), ": in ", rows.rows, " of ", rows.of,
             " rows every key is masked out; ", kEffect[static_cast<int>(rows.effect)]);
}

}  // namespace downhaul

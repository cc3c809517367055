#include "dialects/xnn/emit.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/strings.h"
#include "dialects/xnn/one_to_one.h"
#include "dialects/xnn/spelling.h"
#include "ops/ops.h"

namespace downhaul {
namespace xnn {
namespace {

constexpr int64_t kMaxRank = 6;

std::string refuse_type(const TensorType& type) {
  if (type.dtype != DType::kF32) {
    return cat(name(type.dtype), " values do not go into a delegate");
  }
  if (type.rank() > kMaxRank) return cat("rank ", type.rank(), " is above ", kMaxRank);
  for (const Dim& d : type.shape) {
    if (d.max() < 1) return "an empty tensor";
    if (d.max() > std::numeric_limits<int32_t>::max()) return "a dimension without an upper bound";
  }
  return "";
}

const Functions* find_functions(const OpDef& op) {
  for (const Functions& f : functions_table()) {
    if (f.op == &op) return &f;
  }
  return nullptr;
}

/// The row that spells `node`, or null with the last reason.
const OneToOneRow* find_row(const Node& node, std::string* reason) {
  for (const OneToOneRow& row : one_to_one_rows()) {
    if (row.op != &node.op()) continue;
    *reason = refuse_row(row, node);
    if (reason->empty()) return &row;
  }
  return nullptr;
}

/// The node whose output range `clamp` becomes, or null.
const Node* fusion_producer(const Node& clamp, const std::set<const Node*>& region) {
  const Value* x = clamp.operand(0);
  const Node* producer = x->producer();
  if (producer == nullptr || !x->has_one_use() || !region.contains(producer)) return nullptr;
  if (producer->is(ops::kClamp)) return nullptr;
  static const OpDef* const kWithRange[] = {&ops::kAdd,
                                            &ops::kSub,
                                            &ops::kMul,
                                            &ops::kDiv,
                                            &ops::kLinear,
                                            &ops::kConv2d,
                                            &ops::kConvTranspose2d,
                                            &ops::kMaxPool2d,
                                            &ops::kAvgPool2d,
                                            &ops::kAdaptiveAvgPool2d};
  if (std::find(std::begin(kWithRange), std::end(kWithRange), &producer->op()) ==
      std::end(kWithRange)) {
    return nullptr;
  }
  // Squares have no range in the payload.
  if (producer->is(ops::kMul) && producer->operand(0) == producer->operand(1)) return nullptr;
  return producer;
}

float bound(const Node& clamp, std::string_view name, float absent) {
  return clamp.has_attr(name) ? static_cast<float>(clamp.f(name)) : absent;
}

}  // namespace

std::string refuse_types(const Node& node) {
  bool all_constant = !node.operands().empty();
  for (const Value* v : node.operands()) {
    if (v == nullptr) continue;
    if (std::string reason = refuse_type(v->type()); !reason.empty()) return reason;
    // The runtime gives payload values at least one dimension.
    if (v->rank() == 0 && !v->is_constant()) return "a computed scalar";
    all_constant &= v->is_constant();
  }
  for (int i = 0; i < node.num_results(); ++i) {
    if (std::string reason = refuse_type(node.result(i)->type()); !reason.empty()) return reason;
    if (node.result(i)->rank() == 0) return "a computed scalar";
  }
  return all_constant ? "all operands are constant" : "";
}

}  // namespace xnn

std::string xnn_refusal(const Node& node) {
  const xnn::Functions* functions = xnn::find_functions(node.op());
  std::string reason = cat("XNNPACK has no node for ", node.op_name());
  const xnn::OneToOneRow* row = xnn::find_row(node, &reason);
  if (functions == nullptr && row == nullptr) return reason;
  if (std::string types = xnn::refuse_types(node); !types.empty()) return types;
  return row != nullptr ? "" : functions->refuse(node);
}

Result<XnnPayload> emit_xnn_payload(std::span<Node* const> nodes, std::span<Value* const> inputs,
                                    std::span<Value* const> outputs) {
  xnn::PayloadBuilder out(inputs, outputs);
  const std::set<const Node*> region(nodes.begin(), nodes.end());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::set<const Node*> fused;
  for (const Node* node : nodes) {
    if (!node->is(ops::kClamp)) continue;
    const Node* producer = xnn::fusion_producer(*node, region);
    if (producer == nullptr) continue;
    fused.insert(node);
    out.fuse(*producer, node->result(), xnn::bound(*node, "min", -kInfinity),
             xnn::bound(*node, "max", kInfinity));
  }
  for (const Node* node : nodes) {
    if (fused.contains(node)) continue;
    if (std::string reason = xnn_refusal(*node); !reason.empty()) {
      return unsupported(
          cat(node->op_name(), " '", printable(node->result()->name()), "': ", reason));
    }
    out.begin(*node);
    std::string ignored;
    if (const xnn::OneToOneRow* row = xnn::find_row(*node, &ignored)) {
      xnn::emit_row(*row, *node, out);
    } else {
      xnn::find_functions(node->op())->emit(*node, out);
    }
  }
  return std::move(out).finish();
}

}  // namespace downhaul

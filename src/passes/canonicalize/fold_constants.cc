// Operators on constants become constants. Reshapes and leading slices are views of the same
// storage, whatever their size, so mapped weights stay unread; what would copy a large constant
// (permute, cast) waits for fold_large_constants, when the rewrites that make the copy needless
// have had their turn.
#include "ops/evaluate.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

/// A result of this size is always worth storing.
constexpr int64_t kSmallBytes = 1 << 16;
/// A transposed weight is not: linear and matmul read it the other way round instead.
constexpr int64_t kMaxPermutedBytes = 1 << 10;
/// Masks over positions grow with the square of the length (2048 positions: 4 MiB).
constexpr int64_t kMaxComputedBytes = 8 << 20;

bool all_constant(const Node& node) {
  for (const Value* operand : node.operands()) {
    if (operand != nullptr && !operand->is_constant()) return false;
  }
  return true;
}

int64_t operand_bytes(const Node& node) {
  int64_t bytes = 0;
  for (const Value* operand : node.operands()) {
    if (operand != nullptr) bytes += static_cast<int64_t>(operand->constant().num_bytes());
  }
  return bytes;
}

bool static_attributes(const Node& node) {
  for (const Attr& attr : node.attrs()) {
    if (const auto* dim = std::get_if<Dim>(&attr); dim != nullptr && !dim->is_static())
      return false;
    const auto* dims = std::get_if<Dims>(&attr);
    if (dims == nullptr) continue;
    for (const Dim& dim : *dims) {
      if (!dim.is_static()) return false;
    }
  }
  return true;
}

bool can_fold(const Node& node) {
  // Stored in the form the program gave them: int8 with their scale.
  if (node.is(ops::kQuantize) || node.is(ops::kDequantize)) return false;
  if (!all_constant(node) || !static_attributes(node)) return false;
  for (int i = 0; i < node.num_results(); ++i) {
    if (!node.result(i)->type().is_static()) return false;
  }
  return true;
}

int64_t result_bytes(const Node& node) {
  int64_t bytes = 0;
  for (int i = 0; i < node.num_results(); ++i) {
    const int64_t more = max_bytes(node.result(i)->type());
    if (more > INT64_MAX - bytes) return INT64_MAX;
    bytes += more;
  }
  return bytes;
}

std::vector<Value*> evaluate_to_constants(Node& node, Builder& b) {
  std::vector<const Tensor*> operands;
  for (const Value* operand : node.operands()) {
    operands.push_back(operand == nullptr ? nullptr : &operand->constant());
  }
  auto results = evaluate_node(node, operands);
  // An index out of range, for instance: the program fails when it runs, not here.
  if (!results.ok()) return {};
  std::vector<Value*> values;
  for (size_t i = 0; i < results->size(); ++i) {
    values.push_back(
        b.constant(std::move((*results)[i]), node.result(static_cast<int>(i))->name()));
  }
  return values;
}

/// The result as a view of the operand's storage, or nothing.
std::vector<Value*> view(Node& node, Builder& b) {
  if (node.is(ops::kReshape)) {
    return {b.constant(node.operand(0)->constant().reshaped(static_sizes(node.result()->shape())),
                       node.operand(0)->name())};
  }
  if (!node.is(ops::kSlice) || node.i("step") != 1) return {};
  const Tensor& t = node.operand(0)->constant();
  const int64_t axis = node.axis("dim", t.rank());
  for (int64_t d = 0; d < axis; ++d) {
    if (t.size(d) != 1) return {};
  }
  const Sizes sizes = static_sizes(node.result()->shape());
  uint64_t inner = item_size(t.dtype());
  for (size_t d = static_cast<size_t>(axis) + 1; d < sizes.size(); ++d) {
    inner *= static_cast<uint64_t>(sizes[d]);
  }
  const uint64_t offset =
      t.byte_offset() + static_cast<uint64_t>(node.dim("start").value()) * inner;
  return {b.constant(Tensor(t.dtype(), sizes, t.storage(), offset), node.operand(0)->name())};
}

std::vector<Value*> fold(Node& node, Builder& b) {
  if (!can_fold(node)) return {};
  if (auto values = view(node, b); !values.empty()) return values;
  const int64_t bytes = result_bytes(node);
  if (node.is(ops::kPermute) && bytes > kMaxPermutedBytes) return {};
  if (bytes <= kSmallBytes) {
    // Reading a table for a few of its rows is fine; reducing one is not small.
    if (node.is(ops::kEmbedding) || operand_bytes(node) <= kMaxComputedBytes) {
      return evaluate_to_constants(node, b);
    }
    return {};
  }
  // Copies of one value, and copies of what is already stored.
  if (node.is(ops::kExpand) || node.is(ops::kRepeat) || node.is(ops::kFull) ||
      node.is(ops::kPermute) || node.is(ops::kCast) || node.is(ops::kConcat) ||
      node.is(ops::kSlice)) {
    return {};
  }
  if (bytes > kMaxComputedBytes || operand_bytes(node) > kMaxComputedBytes) return {};
  return evaluate_to_constants(node, b);
}

std::vector<Value*> fold_large(Node& node, Builder& b) {
  if (!can_fold(node) || node.operands().empty()) return {};
  // A file holds the result instead of the operands; it may not grow much by that.
  if (result_bytes(node) > 2 * operand_bytes(node) + kSmallBytes) return {};
  return evaluate_to_constants(node, b);
}

}  // namespace

const Rewrite kFoldConstants = {
    .name = "fold_constants",
    .apply = fold,
};

const Rewrite kFoldLargeConstants = {
    .name = "fold_large_constants",
    .apply = fold_large,
};

}  // namespace downhaul::rewrites

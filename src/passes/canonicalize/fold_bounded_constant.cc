// What depends only on dynamic sizes and constants (position numbers, triangular masks) is computed
// once, at the largest sizes, and sliced:
//     arange(0, s0)                          → slice(constant [max], 0, s0)
//     le(slice(c, 0, s0), slice(d, 0, s0))   → slice(slice(constant [max, max], …), …)
// One operator at a time, so that a cone folds from its leaves. An operator qualifies when its kind
// keeps prefixes (the result at smaller sizes is a prefix, in each dimension, of the result at
// larger ones), and evaluation at the smallest, an inner and the largest sizes confirms it.
#include <algorithm>
#include <set>

#include "ops/evaluate.h"
#include "ops/ops.h"
#include "passes/elementwise.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

/// Triangular masks of up to 2048 positions in bool.
constexpr int64_t kMaxElements = 4 << 20;

using Symbols = std::map<std::string, SymbolPtr, std::less<>>;

bool keeps_prefixes(const Node& node) {
  static const OpDef* const kOther[] = {
      &ops::kArange, &ops::kReshape,     &ops::kPermute, &ops::kExpand, &ops::kSlice,
      &ops::kConcat, &ops::kCumsum,      &ops::kTril,    &ops::kTriu,   &ops::kEmbedding,
      &ops::kIndex,  &ops::kIndexSelect, &ops::kGather};
  if (is_elementwise(node)) return true;
  if (std::none_of(std::begin(kOther), std::end(kOther),
                   [&](const OpDef* op) { return node.is(*op); }))
    return false;
  // Sequences must start at a fixed place; only their end may vary.
  if (node.is(ops::kArange) || node.is(ops::kSlice)) return node.dim("start").is_static();
  if (node.is(ops::kConcat)) {
    // What follows a part of varying size moves.
    const int64_t axis = node.axis("dim", node.result()->rank());
    for (size_t i = 0; i + 1 < node.operands().size(); ++i) {
      if (!node.operands()[i]->dim(axis).is_static()) return false;
    }
  }
  return true;
}

/// The constant below slices that all start at 0, or null.
Value* bounded_source(Value* value) {
  while (is_op(value, ops::kSlice)) {
    const Node& node = *value->producer();
    if (!(node.dim("start") == Dim(0)) || node.i("step") != 1) return nullptr;
    value = node.operand(0);
  }
  return value->is_constant() ? value : nullptr;
}

/// An operand that is a bounded constant, possibly a scalar expanded.
bool is_bounded(Value* value) {
  if (bounded_source(value) != nullptr) return true;
  return is_op(value, ops::kExpand) && bounded_source(value->producer()->operand(0)) != nullptr;
}

/// The first `sizes` elements of each dimension.
std::optional<Tensor> prefix(const Tensor& t, const Sizes& sizes) {
  if (t.sizes() == sizes) return t;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > t.sizes()[d]) return std::nullopt;
  }
  const auto result =
      strided_tensor(t.dtype(), sizes, contiguous_strides(t.sizes()),
                     static_cast<int64_t>(t.byte_offset() / item_size(t.dtype())), t.storage());
  if (!result.ok()) return std::nullopt;
  return *result;
}

/// `source` repeated along dimensions of size 1 to `sizes` (same or higher rank).
std::optional<Tensor> expanded(const Tensor& source, const Sizes& sizes) {
  std::vector<int64_t> strides(sizes.size(), 0);
  const auto own = contiguous_strides(source.sizes());
  const size_t shift = sizes.size() - own.size();
  for (size_t d = 0; d < own.size(); ++d) {
    if (source.sizes()[d] != 1) strides[shift + d] = own[d];
  }
  const auto result = strided_tensor(
      source.dtype(), sizes, strides,
      static_cast<int64_t>(source.byte_offset() / item_size(source.dtype())), source.storage());
  if (!result.ok()) return std::nullopt;
  return *result;
}

std::optional<Tensor> value_at(Value* value, const Bindings& bindings) {
  const auto sizes = eval_sizes(value->shape(), bindings);
  if (!sizes || !checked_num_elements(*sizes) || *checked_num_elements(*sizes) > kMaxElements) {
    return std::nullopt;
  }
  if (Value* source = bounded_source(value)) return prefix(source->constant(), *sizes);
  Value* inner = value->producer()->operand(0);
  const auto inner_sizes = eval_sizes(inner->shape(), bindings);
  if (!inner_sizes) return std::nullopt;
  const auto source = prefix(bounded_source(inner)->constant(), *inner_sizes);
  if (!source) return std::nullopt;
  return expanded(*source, *sizes);
}

std::optional<Tensor> evaluate_at(const Node& node, const Bindings& bindings) {
  std::vector<Tensor> tensors;
  tensors.reserve(node.operands().size());
  std::vector<const Tensor*> operands;
  for (Value* operand : node.operands()) {
    if (operand == nullptr) {
      operands.push_back(nullptr);
      continue;
    }
    auto tensor = value_at(operand, bindings);
    if (!tensor) return std::nullopt;
    tensors.push_back(*std::move(tensor));
    operands.push_back(&tensors.back());
  }
  auto results = evaluate_node(node, operands, bindings);
  if (!results.ok()) return std::nullopt;
  return std::move((*results)[0]);
}

void collect(const Dim& dim, Symbols& symbols) { dim.collect_symbols(symbols); }

Symbols symbols_of(const Node& node) {
  Symbols symbols;
  for (const Dim& dim : node.result()->shape()) collect(dim, symbols);
  for (const Attr& attr : node.attrs()) {
    if (const auto* dim = std::get_if<Dim>(&attr)) collect(*dim, symbols);
    if (const auto* dims = std::get_if<Dims>(&attr)) {
      for (const Dim& dim : *dims) collect(dim, symbols);
    }
  }
  for (const Value* operand : node.operands()) {
    if (operand == nullptr) continue;
    for (const Dim& dim : operand->shape()) collect(dim, symbols);
  }
  return symbols;
}

Bindings bind_at(const Symbols& symbols, double fraction) {
  Bindings bindings;
  for (const auto& [name, symbol] : symbols) {
    const auto span = static_cast<double>(symbol->max - symbol->min);
    bindings[name] = symbol->min + static_cast<int64_t>(span * fraction);
  }
  return bindings;
}

/// True when the result at `bindings` is a prefix of `full`.
bool agrees(const Node& node, const Tensor& full, const Bindings& bindings) {
  const auto sizes = eval_sizes(node.result()->shape(), bindings);
  if (!sizes) return false;
  const auto expected = prefix(full, *sizes);
  const auto found = evaluate_at(node, bindings);
  return expected && found && same_bytes(*expected, *found);
}

/// An embedding or index of a large table is left to embedding_to_slice and to the run.
bool reads_weights(const Node& node) {
  for (Value* operand : node.operands()) {
    if (operand == nullptr) continue;
    const Value* source = bounded_source(operand);
    if (source != nullptr && source->constant().num_elements() > kMaxElements) return true;
  }
  return false;
}

std::vector<Value*> apply(Node& node, Builder& b) {
  if (node.num_results() != 1 || node.result()->type().is_static() || !keeps_prefixes(node)) {
    return {};
  }
  // These are the normal form itself, and what broadcasts for free.
  if (node.is(ops::kSlice) && node.dim("start") == Dim(0)) return {};
  if (node.is(ops::kExpand)) return {};
  for (Value* operand : node.operands()) {
    if (operand != nullptr && !is_bounded(operand)) return {};
  }
  if (reads_weights(node)) return {};
  const Symbols symbols = symbols_of(node);
  for (const auto& [name, symbol] : symbols) {
    if (symbol->max > kMaxElements) return {};
  }
  const Bindings largest = bind_at(symbols, 1);
  const auto sizes = eval_sizes(node.result()->shape(), largest);
  if (!sizes || *sizes != max_sizes(node.result()->shape())) return {};
  const auto count = checked_num_elements(*sizes);
  if (!count || *count > kMaxElements) return {};
  const auto full = evaluate_at(node, largest);
  if (!full || !agrees(node, *full, bind_at(symbols, 0)) ||
      !agrees(node, *full, bind_at(symbols, 0.4))) {
    return {};
  }
  double splat = 0;
  if (full->is_splat(&splat)) return {filled(b, node.result()->type(), splat)};
  Value* value = b.constant(*full, node.result()->name());
  for (int64_t d = 0; d < node.result()->rank(); ++d) {
    const Dim& dim = node.result()->dim(d);
    if (dim.is_static()) continue;
    value = b.op(ops::kSlice, {value}, {{"dim", d}, {"start", Dim(0)}, {"end", dim}});
  }
  return {value};
}

}  // namespace

const Rewrite kFoldBoundedConstant = {
    .name = "fold_bounded_constant",
    .apply = apply,
};

}  // namespace downhaul::rewrites

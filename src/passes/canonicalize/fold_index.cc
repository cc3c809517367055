// index(x, [i, j, …]) where every index counts up along its own dimension of the common index
// shape: slices, a permute when the order differs, and a reshape. Exported attention masks are
// indexed so, mask[arange(B)[:, None, None, None], arange(S)].
#include <algorithm>
#include <numeric>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

struct Indexed {
  int64_t dim;       ///< of x
  Range range;       ///< along which x is read
  int64_t position;  ///< of the varying dimension in the index shape, -1 for a single element
};

/// Indices in x's order, or nothing when one is not such a sequence.
std::vector<Indexed> match_indices(const Node& node, int64_t index_rank) {
  std::vector<Indexed> out;
  const std::vector<Value*> indices = node.list();
  for (size_t d = 0; d < indices.size(); ++d) {
    if (indices[d] == nullptr) continue;
    const auto range = match_range(indices[d]);
    if (!range) return {};
    const int64_t shift = index_rank - indices[d]->rank();
    out.push_back({static_cast<int64_t>(d), *range, range->axis < 0 ? -1 : range->axis + shift});
  }
  return out;
}

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* x = node.operand("self");
  int64_t index_rank = 0;
  for (const Value* index : node.list()) {
    if (index != nullptr) index_rank = std::max(index_rank, index->rank());
  }
  const std::vector<Indexed> indexed = match_indices(node, index_rank);
  if (indexed.empty()) return {};
  // Separated indices put the index shape first; only neighbours are handled.
  for (size_t i = 1; i < indexed.size(); ++i) {
    if (indexed[i].dim != indexed[i - 1].dim + 1) return {};
  }
  std::vector<int64_t> positions;
  for (const Indexed& i : indexed) {
    const Dim end = i.range.start + i.range.length;
    // Negative or out of range: the operator's own rules. The whole dimension always fits.
    const Dim& size = x->dim(i.dim);
    const bool whole = i.range.start == Dim(0) && end == size;
    if (!whole && (i.range.start.min() < 0 || end.max() > size.min())) return {};
    if (i.position < 0) continue;
    if (std::find(positions.begin(), positions.end(), i.position) != positions.end()) return {};
    positions.push_back(i.position);
  }
  for (const Indexed& i : indexed) {
    x = b.op(ops::kSlice, {x},
             {{"dim", i.dim}, {"start", i.range.start}, {"end", i.range.start + i.range.length}});
  }
  if (!std::is_sorted(positions.begin(), positions.end())) {
    // Varying dimensions in the order of the index shape; those of one element stay where they are.
    std::vector<Indexed> varying;
    for (const Indexed& i : indexed) {
      if (i.position >= 0) varying.push_back(i);
    }
    std::sort(varying.begin(), varying.end(),
              [](const Indexed& l, const Indexed& r) { return l.position < r.position; });
    Ints dims(static_cast<size_t>(node.operand("self")->rank()));
    std::iota(dims.begin(), dims.end(), 0);
    size_t next = 0;
    for (const Indexed& i : indexed) {
      if (i.position >= 0) dims[static_cast<size_t>(i.dim)] = varying[next++].dim;
    }
    x = b.op(ops::kPermute, {x}, {{"dims", dims}});
  }
  return {b.op(ops::kReshape, {x}, {{"shape", Dims(node.result()->shape())}})};
}

}  // namespace

const Rewrite kFoldIndex = {
    .name = "fold_index",
    .root = &ops::kIndex,
    .apply = apply,
};

}  // namespace downhaul::rewrites

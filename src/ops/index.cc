#include <algorithm>

#include "ops/allocate.h"
#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/indices.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

// Indexing with integer tensors, as self[i, :, j] of Python: reading (index) and writing
// (index_put).
//
// The index tensors broadcast together to a shape B. Dimensions of self without an index tensor
// (None, or behind the last one) are kept. The picked elements have shape B and the kept
// dimensions; B stands where the index tensors stand when those are neighbours, else in front.
namespace downhaul::ops {

namespace {

/// Where index dimensions and kept ones go.
struct IndexLayout {
  std::vector<size_t> indexed;  ///< dimensions of self with an index tensor
  std::vector<size_t> kept;     ///< the others
  size_t kept_before = 0;       ///< how many kept dimensions stand before B in the result
};

IndexLayout index_layout(const Node& node, size_t rank) {
  IndexLayout layout;
  const std::vector<Value*> list = node.list();
  for (size_t d = 0; d < rank; ++d) {
    (d < list.size() && list[d] != nullptr ? layout.indexed : layout.kept).push_back(d);
  }
  const auto& indexed = layout.indexed;
  if (!indexed.empty() && indexed.back() - indexed.front() + 1 == indexed.size()) {
    layout.kept_before = indexed.front();
  }
  return layout;
}

/// B as dimensions.
Result<Shape> index_shape(const Node& node) {
  Shape shape;
  bool any = false;
  const std::vector<Value*> list = node.list();
  if (static_cast<int64_t>(list.size()) > node.type("self").rank()) {
    return invalid_graph(cat("indices: expected at most ", node.type("self").rank(),
                             " entries, found ", list.size()));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == nullptr) continue;
    any = true;
    const std::string name = cat("indices[", i, "]");
    DH_TRY(require_index_dtype(name, list[i]->type()));
    DH_ASSIGN(shape, broadcast_shapes("indices before", shape, name, list[i]->shape()));
  }
  if (!any) return invalid_graph("indices: expected at least one tensor, found none");
  return shape;
}

/// Shape of the picked elements.
Result<Shape> picked_shape(const Node& node) {
  DH_ASSIGN(Shape out, index_shape(node));
  const Shape& self = node.type("self").shape;
  const IndexLayout layout = index_layout(node, self.size());
  Shape before;
  for (size_t k = 0; k < layout.kept.size(); ++k) {
    (k < layout.kept_before ? before : out).push_back(self[layout.kept[k]]);
  }
  out.insert(out.begin(), before.begin(), before.end());
  return out;
}

TypesResult infer_index(const Node& node) {
  DH_ASSIGN(Shape shape, picked_shape(node));
  return one_type(node.type("self").dtype, std::move(shape));
}

AxisMap index_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const Value& self = *node.operand(0);
  const int64_t rank = node.result()->rank();
  const IndexLayout layout = index_layout(node, self.shape().size());
  const auto index_rank = rank - static_cast<int64_t>(layout.kept.size());
  const auto before = static_cast<int64_t>(layout.kept_before);
  for (size_t k = 0; k < layout.kept.size(); ++k) {
    const auto to = static_cast<int64_t>(k) + (k < layout.kept_before ? 0 : index_rank);
    map_axis_always(map, 0, static_cast<int64_t>(layout.kept[k]), to);
  }
  for (int o = 1; o < static_cast<int>(node.operands().size()); ++o) {
    const Value* index = node.operand(o);
    for (int64_t d = 0; index != nullptr && d < index->rank(); ++d) {
      map_axis(map, node, o, d, before + index_rank - index->rank() + d);
    }
  }
  return map;
}

/// Calls f(offset in self, number of the picked element) for every picked element, in row-major
/// order of their shape `picked`.
template <typename F>
Status for_each_picked(const RefCall& call, const Sizes& picked, F f) {
  const Tensor& self = call.in("self");
  const IndexLayout layout = index_layout(call.node, self.sizes().size());
  const std::vector<int64_t> strides = contiguous_strides(self.sizes());
  const auto list_begin = static_cast<size_t>(call.node.schema().num_operands);
  const auto b_begin = picked.begin() + static_cast<ptrdiff_t>(layout.kept_before);
  const Sizes b_sizes(b_begin, b_begin + static_cast<ptrdiff_t>(picked.size()) -
                                   static_cast<ptrdiff_t>(layout.kept.size()));
  // Offset in self of each element of B, over all index tensors.
  std::vector<int64_t> base(static_cast<size_t>(checked_num_elements(b_sizes).value_or(0)), 0);
  for (const size_t d : layout.indexed) {
    const Tensor& index = *call.operands[list_begin + d];
    DH_ASSIGN(const std::vector<int64_t> positions,
              checked_indices(index, self.sizes()[d], NegativeIndex::kFromEnd));
    const LoopNest loops = broadcast_loops(b_sizes, {&index});
    for_each_row(loops, [&](int64_t to, const int64_t* from) {
      for (int64_t i = 0; i < loops.inner_size(); ++i) {
        base[static_cast<size_t>(to + i)] +=
            positions[static_cast<size_t>(from[0] + i * loops.inner_stride(0))] * strides[d];
      }
    });
  }
  // Kept dimensions before B, B, kept dimensions after B.
  Sizes before;
  Sizes after;
  std::vector<int64_t> before_strides;
  std::vector<int64_t> after_strides;
  for (size_t k = 0; k < layout.kept.size(); ++k) {
    const size_t d = layout.kept[k];
    (k < layout.kept_before ? before : after).push_back(self.sizes()[d]);
    (k < layout.kept_before ? before_strides : after_strides).push_back(strides[d]);
  }
  const LoopNest outer = make_loops(before, {before_strides});
  const LoopNest inner = make_loops(after, {after_strides});
  int64_t element = 0;
  for_each_row(outer, [&](int64_t, const int64_t* outer_from) {
    for (int64_t o = 0; o < outer.inner_size(); ++o) {
      const int64_t outer_offset = outer_from[0] + o * outer.inner_stride(0);
      for (const int64_t b : base) {
        for_each_row(inner, [&](int64_t, const int64_t* inner_from) {
          for (int64_t i = 0; i < inner.inner_size(); ++i) {
            f(outer_offset + b + inner_from[0] + i * inner.inner_stride(0), element++);
          }
        });
      }
    }
  });
  return {};
}

template <typename T>
Status index(RefCall& call) {
  const T* from = call.in("self").data<T>();
  T* out = call.out().mutable_data<T>();
  return for_each_picked(call, call.out().sizes(),
                         [=](int64_t offset, int64_t element) { out[element] = from[offset]; });
}

TypesResult infer_index_put(const Node& node) {
  DH_TRY(require_same_dtype(node, {"self", "values"}));
  DH_ASSIGN(const Shape picked, picked_shape(node));
  DH_TRY(require_broadcastable("values", node.type("values").shape, picked));
  return one_type(node.type("self"));
}

AxisMap index_put_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const int64_t rank = node.operand(0)->rank();
  const IndexLayout layout = index_layout(node, static_cast<size_t>(rank));
  int64_t index_rank = 0;
  for (const Value* v : node.list()) {
    if (v != nullptr) index_rank = std::max(index_rank, v->rank());
  }
  const int64_t picked_rank = index_rank + static_cast<int64_t>(layout.kept.size());
  const int64_t values_rank = node.operand(1)->rank();
  for (size_t k = 0; k < layout.kept.size(); ++k) {
    const auto d = static_cast<int64_t>(layout.kept[k]);
    map_axis_always(map, 0, d, d);
    const int64_t picked = static_cast<int64_t>(k) + (k < layout.kept_before ? 0 : index_rank);
    const int64_t in_values = picked - (picked_rank - values_rank);
    if (in_values >= 0) map_axis(map, node, 1, in_values, d);
  }
  return map;
}

/// Values in the picked shape, row-major.
Result<Tensor> broadcast_values(const Tensor& values, const Sizes& picked) {
  DH_ASSIGN(Tensor out, allocate_tensor("values", values.dtype(), picked));
  strided_copy(values, 0, broadcast_strides(values.sizes(), picked), out);
  return out;
}

Result<Sizes> picked_sizes(const RefCall& call) {
  DH_ASSIGN(const Shape shape, picked_shape(call.node));
  const auto sizes = eval_sizes(shape, call.bindings);
  if (!sizes) {
    return invalid_argument(cat("values: shape ", str(shape), " has no size in this run"));
  }
  return *sizes;
}

template <typename T>
Status replace(RefCall& call) {
  DH_ASSIGN(const Sizes picked, picked_sizes(call));
  DH_ASSIGN(const Tensor values, broadcast_values(call.in("values"), picked));
  const T* from = values.data<T>();
  T* out = call.out().mutable_data<T>();
  std::copy_n(call.in("self").data<T>(), call.out().num_elements(), out);
  return for_each_picked(call, picked,
                         [=](int64_t offset, int64_t element) { out[offset] = from[element]; });
}

template <typename T>
Status accumulate(RefCall& call) {
  DH_ASSIGN(const Sizes picked, picked_sizes(call));
  DH_ASSIGN(const Tensor values, broadcast_values(call.in("values"), picked));
  const T* from = values.data<T>();
  T* out = call.out().mutable_data<T>();
  std::copy_n(call.in("self").data<T>(), call.out().num_elements(), out);
  return for_each_picked(call, picked, [=](int64_t offset, int64_t element) {
    if constexpr (std::is_same_v<T, bool>) {
      out[offset] = out[offset] || from[element];
    } else {
      out[offset] = wrapping(out[offset], from[element], [](auto a, auto b) { return a + b; });
    }
  });
}

Status index_put(RefCall& call) {
  if (call.node.b("accumulate")) {
    return for_any(call, call.in("self").dtype(),
                   []<typename T>(RefCall& c) { return accumulate<T>(c); });
  }
  return for_item_size(call, call.in("self").dtype(),
                       []<typename T>(RefCall& c) { return replace<T>(c); });
}

}  // namespace

// index: the elements of self that the index tensors pick (rule at the top of this file).
//   self any dtype   indices  i32 or i64, None to keep a dimension   result  dtype of self
// Errors: kInvalidGraph for no index tensor, too many, other dtypes, shapes that do not broadcast;
// evaluating an index outside [-size, size). Source: aten::index.Tensor.
const OpDef kIndex = {
    .name = "index",
    .schema = "index(Tensor self, Tensor?[] indices) -> Tensor",
    .infer = infer_index,
    .axes = index_axes,
    .reference =
        [](RefCall& call) {
          return for_item_size(call, call.in(0).dtype(),
                               []<typename T>(RefCall& c) { return index<T>(c); });
        },
};

// index_put: self with the picked elements replaced by values, which broadcast to their shape; with
// `accumulate` values are added. When an element is picked twice the last value stays.
// Errors: as index, and for values of another dtype or shape. Source: aten::index_put.
const OpDef kIndexPut = {
    .name = "index_put",
    .schema =
        "index_put(Tensor self, Tensor values, Tensor?[] indices, bool accumulate=False) -> "
        "Tensor",
    .infer = infer_index_put,
    .axes = index_put_axes,
    .reference = index_put,
};

}  // namespace downhaul::ops

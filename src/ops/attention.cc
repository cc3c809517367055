#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/axes.h"
#include "ops/cached.h"
#include "ops/dispatch.h"
#include "ops/gemm.h"
#include "ops/indices.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

namespace downhaul::ops {

namespace {

Shape leading(const TensorType& type) { return {type.shape.begin(), type.shape.end() - 2}; }

const Dim& from_end(const TensorType& type, size_t back) {
  return type.shape[type.shape.size() - back];
}

TypesResult infer_attention(const Node& node) {
  DH_TRY(require_float(node, "query"));
  DH_TRY(require_same_dtype(node, {"query", "key", "value"}));
  for (const char* arg : {"query", "key", "value"}) DH_TRY(require_min_rank(node, arg, 2));
  const TensorType& query = node.type("query");
  const TensorType& key = node.type("key");
  const TensorType& value = node.type("value");
  DH_TRY(require_dim("key", key.rank() - 1, from_end(key, 1), from_end(query, 1)));
  DH_TRY(require_dim("value", value.rank() - 2, from_end(value, 2), from_end(key, 2)));
  DH_ASSIGN(const Shape both, broadcast_shapes("query", leading(query), "key", leading(key)));
  DH_ASSIGN(Shape shape, broadcast_shapes("query and key", both, "value", leading(value)));
  if (const Value* mask = node.operand("mask")) {
    if (node.schema().find("is_causal") != nullptr && node.b("is_causal")) {
      return invalid_graph("mask: expected none with is_causal");
    }
    if (mask->dtype() != DType::kBool && mask->dtype() != query.dtype) {
      return invalid_graph(
          cat("mask: expected bool or ", name(query.dtype), ", found ", mask->type().str()));
    }
    Shape scores = shape;
    scores.push_back(from_end(query, 2));
    scores.push_back(from_end(key, 2));
    DH_TRY(require_broadcastable("mask", mask->shape(), scores));
  }
  shape.push_back(from_end(query, 2));
  shape.push_back(from_end(value, 1));
  return one_type(query.dtype, std::move(shape));
}

TypesResult infer_cached_attention(const Node& node) {
  DH_TRY(require_index_dtype("position", node.type("position")));
  DH_TRY(require_shape(node, "position", {}));
  return infer_attention(node);
}

/// The leading dimensions, and the columns of value.
AxisMap batch_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const int64_t rank = node.result()->rank();
  for (int o = 0; o < 4; ++o) {
    const Value* v = node.operand(o);
    for (int64_t d = 0; v != nullptr && d + 2 < v->rank(); ++d) {
      map_axis(map, node, o, d, rank - v->rank() + d);
    }
  }
  map_axis_always(map, 2, node.operand(2)->rank() - 1, rank - 1);
  return map;
}

AxisMap attention_axes(const Node& node) {
  AxisMap map = batch_axes(node);
  const int64_t rank = node.result()->rank();
  // The mask of causal attention depends on where a query stands.
  if (!node.b("is_causal")) {
    map_axis_always(map, 0, node.operand(0)->rank() - 2, rank - 2);
    if (const Value* mask = node.operand(3); mask != nullptr && mask->rank() >= 2) {
      map_axis(map, node, 3, mask->rank() - 2, rank - 2);
    }
  }
  return map;
}

/// Mask of one matrix of scores: element (i, j) at i * row + j * column.
struct MaskView {
  const void* data = nullptr;
  bool is_bool = false;
  int64_t row = 0;
  int64_t column = 0;
};

/// Scores of one query become weights; nothing to attend to gives zeros.
template <typename T>
void weights_of_row(T* scores, int64_t n, T scale, const MaskView& mask, int64_t mask_at) {
  constexpr T kNever = -std::numeric_limits<T>::infinity();
  T top = kNever;
  for (int64_t j = 0; j < n; ++j) {
    T s = scores[j] * scale;
    if (mask.data != nullptr) {
      const int64_t at = mask_at + j * mask.column;
      if (mask.is_bool) {
        s = static_cast<const bool*>(mask.data)[at] ? s : kNever;
      } else {
        s += static_cast<const T*>(mask.data)[at];
      }
    }
    scores[j] = s;
    top = std::max(top, s);
  }
  if (top == kNever && std::all_of(scores, scores + n, [](T s) { return s == kNever; })) {
    std::fill_n(scores, n, T(0));
    return;
  }
  double sum = 0;
  for (int64_t j = 0; j < n; ++j) {
    scores[j] = std::exp(scores[j] - top);
    sum += static_cast<double>(scores[j]);
  }
  const T inverse = static_cast<T>(1 / sum);
  for (int64_t j = 0; j < n; ++j) scores[j] *= inverse;
}

/// Strides over the leading dimensions in units of one matrix.
std::vector<int64_t> matrix_strides(const Tensor& t, const Sizes& batch) {
  return broadcast_strides(Sizes(t.sizes().begin(), t.sizes().end() - 2), batch);
}

/// Query i attends to the keys before `first` + i only, and to none behind `end`.
struct Limits {
  int64_t first;
  int64_t end;
};

template <typename T>
Status attention(RefCall& call, const Limits* limits) {
  const Tensor& query = call.in("query");
  const Tensor& key = call.in("key");
  const Tensor& value = call.in("value");
  const Tensor* mask = call.maybe("mask");
  const int64_t s = query.size(query.rank() - 2);
  const int64_t d = query.size(query.rank() - 1);
  const int64_t t = key.size(key.rank() - 2);
  const int64_t dv = value.size(value.rank() - 1);
  const int64_t seen = limits == nullptr ? t : std::min(t, limits->end);
  const T scale = static_cast<T>(
      call.node.has_attr("scale") ? call.node.f("scale") : 1 / std::sqrt(static_cast<double>(d)));
  const Sizes& out_sizes = call.out().sizes();
  const Sizes batch(out_sizes.begin(), out_sizes.end() - 2);
  MaskView view;
  std::vector<int64_t> mask_strides(batch.size(), 0);
  if (mask != nullptr) {
    Sizes scores = batch;
    scores.insert(scores.end(), {s, t});
    std::vector<int64_t> strides = broadcast_strides(mask->sizes(), scores);
    view = {mask->bytes().data(), mask->dtype() == DType::kBool, strides[batch.size()],
            strides[batch.size() + 1]};
    strides.resize(batch.size());
    mask_strides = std::move(strides);
  }
  const LoopNest loops =
      make_loops(batch, {matrix_strides(query, batch), matrix_strides(key, batch),
                         matrix_strides(value, batch), mask_strides});
  // Some queries at a time, so that long sequences do not need all scores at once.
  constexpr int64_t kMaxScores = int64_t{1} << 20;
  const int64_t block = std::clamp<int64_t>(kMaxScores / std::max<int64_t>(t, 1), 1, s);
  std::vector<T> scores(static_cast<size_t>(block * t));
  T* out = call.out().mutable_data<T>();
  for_each_row(loops, [&](int64_t result, const int64_t* from) {
    for (int64_t b = 0; b < loops.inner_size(); ++b) {
      const T* q = query.data<T>() + (from[0] + b * loops.inner_stride(0)) * s * d;
      const T* k = key.data<T>() + (from[1] + b * loops.inner_stride(1)) * t * d;
      const T* v = value.data<T>() + (from[2] + b * loops.inner_stride(2)) * t * dv;
      const int64_t mask_base = from[3] + b * loops.inner_stride(3);
      for (int64_t i0 = 0; i0 < s; i0 += block) {
        const int64_t rows = std::min(block, s - i0);
        gemm(rows, seen, d, StridedMatrix<T>{q + i0 * d, d, 1}, StridedMatrix<T>{k, 1, d},
             scores.data(), t);
        for (int64_t i = i0; i < i0 + rows; ++i) {
          T* row = scores.data() + (i - i0) * t;
          const int64_t n = limits == nullptr ? t : std::min(limits->first + i, t);
          std::fill(row + n, row + seen, T(0));
          weights_of_row(row, n, scale, view, mask_base + i * view.row);
        }
        gemm(rows, dv, seen, StridedMatrix<T>{scores.data(), t, 1}, StridedMatrix<T>{v, dv, 1},
             out + ((result + b) * s + i0) * dv, dv);
      }
    }
  });
  return {};
}

int64_t attention_multiply_adds(const Node& node) {
  const Sizes result = max_sizes(node.result()->shape());
  const Sizes key = max_sizes(node.type("key").shape);
  int64_t batch = 1;
  for (size_t i = 0; i + 2 < result.size(); ++i)
    batch = count_multiply_adds(batch, result[i], 1, 1);
  const int64_t depth = key.back();
  const int64_t keys = key[key.size() - 2];
  const int64_t dv = result.back();
  return count_multiply_adds(batch, result[result.size() - 2], keys, depth + dv);
}

}  // namespace

// attention: softmax(query · keyᵀ · scale + mask) · value for each matrix of the batch.
//   query  float [..., S, D]     key  [..., T, D]     value  [..., T, V]; leading dims broadcast
//   mask   bool (true: attend) or the dtype of query (added), broadcasts to [..., S, T], or absent
//   is_causal: query i attends to keys 0 … i, without a mask      scale  absent: 1 / √D
//   result [..., S, V]
// A query that may attend to nothing (all false, or all -inf) gets zeros. Sums of weights in f64,
// products as in gemm.h. Grouped heads are expanded by the reader.
// Errors: kInvalidGraph for dtypes, sizes, a mask together with is_causal.
// Source: aten::scaled_dot_product_attention.
const OpDef kAttention = {
    .name = "attention",
    .schema =
        "attention(Tensor query, Tensor key, Tensor value, Tensor? mask=None, bool "
        "is_causal=False, float? scale=None) -> Tensor",
    .infer = infer_attention,
    .axes = attention_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(), []<typename T>(RefCall& c) {
            const Limits causal{1, INT64_MAX};
            return attention<T>(c, c.node.b("is_causal") ? &causal : nullptr);
          });
        },
    .accuracy = Accuracy::kRounding,
    .multiply_adds = attention_multiply_adds,
};

// cached_attention: causal attention of some tokens of a sequence, whose keys and values up to them
// lie in a buffer with room for more: as attention, where query i is the token at
// position + offset + i and attends to the keys 0 … position + offset + i. Keys behind the last of
// them are not read.
//   query  float [..., S, D]     key  [..., T, D]     value  [..., T, V]; leading dims broadcast
//   position  i32 or i64 []      mask  as in attention, [..., S, T]
// Errors: as attention; evaluating a position outside [0, T - offset - S].
const OpDef kCachedAttention = {
    .name = "cached_attention",
    .schema =
        "cached_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor position, "
        "dim offset=0, float? scale=None) -> Tensor",
    .infer = infer_cached_attention,
    .axes = batch_axes,
    .reference = [](RefCall& call) -> Status {
      const Tensor& query = call.in("query");
      const Tensor& key = call.in("key");
      const int64_t offset = call.size("offset");
      const int64_t rows = query.size(query.rank() - 2);
      const int64_t places = key.size(key.rank() - 2) - offset - rows + 1;
      DH_ASSIGN(const std::vector<int64_t> position,
                checked_indices(call.in("position"), places, NegativeIndex::kError));
      const Limits limits{position[0] + offset + 1, position[0] + offset + rows};
      const auto attend = [&]<typename T>(RefCall& c) { return attention<T>(c, &limits); };
      return for_float(call, query.dtype(), attend);
    },
    .accuracy = Accuracy::kRounding,
    .multiply_adds = attention_multiply_adds,
};

}  // namespace downhaul::ops

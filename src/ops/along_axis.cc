#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <type_traits>
#include <vector>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/lines.h"
#include "ops/ops.h"

// Operators that look along one dimension: positions of extremes, running sums, the k best.
// Errors: kInvalidGraph for a `dim` out of range and for dtypes.
namespace downhaul::ops {

namespace {

/// Order in which NaN stands before everything.
template <typename T, typename Better>
bool ranks_before(T a, T b, Better better) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && !std::isnan(b);
  }
  return better(a, b);
}

TypesResult infer_arg(const Node& node) {
  const TensorType& self = node.type("self");
  DH_TRY(require_axis(node, "dim", self.rank()));
  const auto axis = static_cast<size_t>(node.axis("dim", self.rank()));
  if (self.shape[axis] == Dim(0)) {
    return invalid_graph(
        cat("self: expected dimension ", axis, " not to be empty, found ", self.str()));
  }
  Shape shape = self.shape;
  if (node.b("keepdim")) {
    shape[axis] = Dim(1);
  } else {
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
  }
  return one_type(DType::kI64, std::move(shape));
}

AxisMap axes_over_dim(const Node& node) {
  const int64_t axis = node.axis("dim", node.operand(0)->rank());
  return reduction_axes(node, std::span(&axis, 1));
}

/// Position of the first element that no other ranks before.
template <typename Better>
Status first_best(RefCall& call, Better better) {
  const Tensor& input = call.in("self");
  const int64_t axis = call.node.axis("dim", input.rank());
  if (input.size(axis) == 0 && call.out().num_elements() > 0) {
    return invalid_argument(
        cat("self: expected dimension ", axis, " not to be empty, found ", describe(input)));
  }
  return for_any(call, input.dtype(), [=]<typename T>(RefCall& c) -> Status {
    const Tensor& self = c.in("self");
    const T* in = self.data<T>();
    int64_t* out = c.out().mutable_data<int64_t>();
    for_each_line(self, axis, [&](int64_t first, int64_t stride, int64_t size) {
      int64_t best = 0;
      for (int64_t i = 1; i < size; ++i) {
        if (ranks_before(in[first + i * stride], in[first + best * stride], better)) best = i;
      }
      *out++ = best;
    });
    return {};
  });
}

TypesResult infer_cumsum(const Node& node) {
  const TensorType& self = node.type("self");
  if (!is_float(self.dtype) && self.dtype != DType::kI64) {
    return invalid_graph(cat("self: expected i64 or a floating-point dtype, found ", self.str()));
  }
  DH_TRY(require_axis(node, "dim", self.rank()));
  return one_type(self);
}

template <typename T>
Status cumsum(RefCall& call) {
  const Tensor& self = call.in("self");
  const T* in = self.data<T>();
  T* out = call.out().mutable_data<T>();
  for_each_line(self, call.node.axis("dim", self.rank()),
                [=](int64_t first, int64_t stride, int64_t size) {
                  Accumulator<T> sum = 0;
                  for (int64_t i = 0; i < size; ++i) {
                    sum += static_cast<Accumulator<T>>(in[first + i * stride]);
                    out[first + i * stride] = static_cast<T>(sum);
                  }
                });
  return {};
}

TypesResult infer_topk(const Node& node) {
  const TensorType& self = node.type("self");
  DH_TRY(require_axis(node, "dim", self.rank()));
  DH_TRY(require_int(node, "k", 0));
  const auto axis = static_cast<size_t>(node.axis("dim", self.rank()));
  if (always_greater(Dim(node.i("k")), self.shape[axis])) {
    return invalid_graph(
        cat("k: expected at most ", self.shape[axis].str(), ", found ", node.i("k")));
  }
  Shape shape = self.shape;
  shape[axis] = Dim(node.i("k"));
  return std::vector<TensorType>{{self.dtype, shape}, {DType::kI64, shape}};
}

template <typename T>
Status topk(RefCall& call) {
  const Tensor& self = call.in("self");
  const int64_t axis = call.node.axis("dim", self.rank());
  const int64_t k = call.node.i("k");
  const bool largest = call.node.b("largest");
  const T* in = self.data<T>();
  T* values = call.out(0).mutable_data<T>();
  int64_t* indices = call.out(1).mutable_data<int64_t>();
  std::vector<int64_t> order;
  for_each_line(self, axis, [&](int64_t first, int64_t stride, int64_t size) {
    order.resize(static_cast<size_t>(size));
    std::iota(order.begin(), order.end(), int64_t{0});
    // NaN is the largest value, so it comes last among the smallest.
    const auto is_better = [&](int64_t a, int64_t b) {
      const T x = in[first + a * stride];
      const T y = in[first + b * stride];
      return largest ? ranks_before(x, y, std::greater<T>())
                     : ranks_before(y, x, std::greater<T>());
    };
    std::sort(order.begin(), order.end(),
              [&](int64_t a, int64_t b) { return is_better(a, b) || (a < b && !is_better(b, a)); });
    // A line's results start where its elements would, with k in place of size.
    const int64_t to = first / (stride * size) * stride * k + first % (stride * size);
    for (int64_t i = 0; i < k; ++i) {
      const int64_t from = order[static_cast<size_t>(i)];
      values[to + i * stride] = in[first + from * stride];
      indices[to + i * stride] = from;
    }
  });
  return {};
}

}  // namespace

// argmax: position of the largest element along `dim`, the first one on ties; NaN is the largest.
//   self any dtype   result i64 without `dim`, or with size 1 there when keepdim
// Errors: an empty dimension. Source: aten::argmax with dim, aten::max.dim.
const OpDef kArgmax = {
    .name = "argmax",
    .schema = "argmax(Tensor self, int dim, bool keepdim=False) -> Tensor",
    .infer = infer_arg,
    .axes = axes_over_dim,
    .reference = [](RefCall& c) { return first_best(c, [](auto a, auto b) { return a > b; }); },
};

// argmin: position of the smallest element along `dim`, the first one on ties; NaN is the smallest.
// Otherwise as argmax. Source: aten::argmin with dim, aten::min.dim.
const OpDef kArgmin = {
    .name = "argmin",
    .schema = "argmin(Tensor self, int dim, bool keepdim=False) -> Tensor",
    .infer = infer_arg,
    .axes = axes_over_dim,
    .reference = [](RefCall& c) { return first_best(c, [](auto a, auto b) { return a < b; }); },
};

// cumsum: y[i] = x[0] + … + x[i] along `dim`; i64 (wraps) or floats, with the sum in f64.
// Smaller integers are cast first. Source: aten::cumsum.
const OpDef kCumsum = {
    .name = "cumsum",
    .schema = "cumsum(Tensor self, int dim) -> Tensor",
    .infer = infer_cumsum,
    .axes = [](const Node& node) { return same_except_axis(node, "dim"); },
    .reference =
        [](RefCall& call) {
          return for_number(call, call.in(0).dtype(),
                            []<typename T>(RefCall& c) { return cumsum<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

// topk: the k largest (or smallest) elements along `dim` and their positions, best first; equal
// ones in the order of their positions; NaN is the largest. Results are sorted whatever `sorted`
// says.
//   self any dtype   results  values, dtype of self, and indices i64, with k elements along dim
// Errors: k above the size. Source: aten::topk.
const OpDef kTopk = {
    .name = "topk",
    .schema =
        "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor, "
        "Tensor)",
    .infer = infer_topk,
    .axes = nullptr,
    .reference = [](RefCall& call) -> Status {
      const Tensor& self = call.in("self");
      const int64_t size = self.size(call.node.axis("dim", self.rank()));
      if (call.node.i("k") > size) {
        return invalid_argument(cat("k: expected at most ", size, ", found ", call.node.i("k")));
      }
      return for_any(call, self.dtype(), []<typename T>(RefCall& c) { return topk<T>(c); });
    },
};

}  // namespace downhaul::ops

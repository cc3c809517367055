#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

// Reductions over the dimensions `dims` (explicit, non-negative), which `keepdim` keeps with
// size 1. Floats are accumulated in f64 and rounded once; integers wrap. Errors: kInvalidGraph for
// a dimension out of range or named twice, and for dtypes. Source: aten::<name>, dim form.
namespace downhaul::ops {

namespace {

TypesResult infer_reduction(const Node& node, DType dtype) {
  const TensorType& self = node.type("self");
  DH_TRY(require_axes(node, "dims", self.rank()));
  const Ints& dims = node.ints("dims");
  Shape shape;
  for (int64_t d = 0; d < self.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) {
      shape.push_back(self.shape[static_cast<size_t>(d)]);
    } else if (node.b("keepdim")) {
      shape.emplace_back(1);
    }
  }
  return one_type(dtype, std::move(shape));
}

TypesResult infer_same_dtype(const Node& node) {
  return infer_reduction(node, node.type("self").dtype);
}

/// Sums keep the dtype, so small integers are cast first, as torch does.
TypesResult infer_sum(const Node& node) {
  const DType dtype = node.type("self").dtype;
  if (!is_float(dtype) && dtype != DType::kI64) {
    return invalid_graph(
        cat("self: expected i64 or a floating-point dtype, found ", node.type("self").str()));
  }
  return infer_same_dtype(node);
}

TypesResult infer_float_reduction(const Node& node) {
  DH_TRY(require_float(node, "self"));
  return infer_same_dtype(node);
}

/// The largest of nothing is not a number: dimensions reduced must not be empty.
TypesResult infer_extreme(const Node& node) {
  DH_ASSIGN(auto types, infer_same_dtype(node));
  const TensorType& self = node.type("self");
  for (const int64_t d : node.ints("dims")) {
    if (self.shape[static_cast<size_t>(d)] == Dim(0)) {
      return invalid_graph(
          cat("self: expected dimension ", d, " not to be empty, found ", self.str()));
    }
  }
  return types;
}

TypesResult infer_test(const Node& node) { return infer_reduction(node, DType::kBool); }

AxisMap axes_over_dims(const Node& node) { return reduction_axes(node, node.ints("dims")); }

/// Elements of self reordered: kept dimensions first, reduced ones behind. `count` is how many
/// elements make one result.
struct Lines {
  Tensor data;
  int64_t count = 0;
};

Lines lines_over_dims(const RefCall& call) {
  const Tensor& self = call.in("self");
  const Ints& dims = call.node.ints("dims");
  std::vector<int64_t> order;
  for (int64_t d = 0; d < self.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) order.push_back(d);
  }
  std::vector<int64_t> reduced(dims.begin(), dims.end());
  std::sort(reduced.begin(), reduced.end());
  order.insert(order.end(), reduced.begin(), reduced.end());
  Lines lines;
  lines.count = self.num_elements() / call.results[0].num_elements();
  lines.data = std::is_sorted(order.begin(), order.end()) ? self : permuted(self, order);
  return lines;
}

/// out[i] = f(first, count) over the elements of line i.
template <typename T, typename Out, typename F>
Status reduce_lines(RefCall& call, F f) {
  const Lines lines = lines_over_dims(call);
  const T* in = lines.data.data<T>();
  Out* out = call.out().mutable_data<Out>();
  for (int64_t i = 0, n = call.out().num_elements(); i < n; ++i) {
    out[i] = static_cast<Out>(f(in + i * lines.count, lines.count));
  }
  return {};
}

template <typename T>
Accumulator<T> sum_of(const T* x, int64_t n) {
  Accumulator<T> sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<Accumulator<T>>(x[i]);
  return sum;
}

/// The best of n >= 1 elements; a NaN is.
template <typename T, typename Better>
T extreme_of(const T* x, int64_t n, Better better) {
  T best = x[0];
  for (int64_t i = 1; i < n; ++i) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(best)) break;
      if (std::isnan(x[i])) best = x[i];
    }
    if (better(x[i], best)) best = x[i];
  }
  return best;
}

template <typename Better>
Status extreme(RefCall& call, Better better) {
  const Tensor& self = call.in("self");
  if (self.num_elements() == 0) {
    return invalid_argument(
        cat("self: expected dimensions that are not empty, found ", describe(self)));
  }
  return for_any(call, self.dtype(), [=]<typename T>(RefCall& c) {
    return reduce_lines<T, T>(c, [=](const T* x, int64_t n) { return extreme_of(x, n, better); });
  });
}

template <typename T>
bool is_set(T x) {
  return x != T(0);
}

}  // namespace

// all: whether every element differs from 0; of nothing true. Any dtype, result bool.
const OpDef kAll = {
    .name = "all",
    .schema = "all(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
    .infer = infer_test,
    .axes = axes_over_dims,
    .reference =
        [](RefCall& call) {
          return for_any(call, call.in(0).dtype(), []<typename T>(RefCall& c) {
            return reduce_lines<T, bool>(
                c, [](const T* x, int64_t n) { return std::all_of(x, x + n, is_set<T>); });
          });
        },
};

// any: whether some element differs from 0; of nothing false. Any dtype, result bool.
const OpDef kAny = {
    .name = "any",
    .schema = "any(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
    .infer = infer_test,
    .axes = axes_over_dims,
    .reference =
        [](RefCall& call) {
          return for_any(call, call.in(0).dtype(), []<typename T>(RefCall& c) {
            return reduce_lines<T, bool>(
                c, [](const T* x, int64_t n) { return std::any_of(x, x + n, is_set<T>); });
          });
        },
};

// amax: the largest element, NaN if there is one; any dtype. An empty self is an error.
const OpDef kAmax = {
    .name = "amax",
    .schema = "amax(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
    .infer = infer_extreme,
    .axes = axes_over_dims,
    .reference = [](RefCall& c) { return extreme(c, [](auto a, auto b) { return a > b; }); },
};

// amin: the smallest element, NaN if there is one; any dtype. An empty self is an error.
const OpDef kAmin = {
    .name = "amin",
    .schema = "amin(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
    .infer = infer_extreme,
    .axes = axes_over_dims,
    .reference = [](RefCall& c) { return extreme(c, [](auto a, auto b) { return a < b; }); },
};

// sum: of nothing 0; i64 or floats.
const OpDef kSum = {
    .name = "sum",
    .schema = "sum(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
    .infer = infer_sum,
    .axes = axes_over_dims,
    .reference =
        [](RefCall& call) {
          return for_number(call, call.in(0).dtype(), []<typename T>(RefCall& c) {
            return reduce_lines<T, T>(c, sum_of<T>);
          });
        },
    .accuracy = Accuracy::kRounding,
};

// mean: sum / number of elements; of nothing NaN; floats.
const OpDef kMean = {
    .name = "mean",
    .schema = "mean(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
    .infer = infer_float_reduction,
    .axes = axes_over_dims,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(), []<typename T>(RefCall& c) {
            return reduce_lines<T, T>(
                c, [](const T* x, int64_t n) { return sum_of(x, n) / static_cast<double>(n); });
          });
        },
    .accuracy = Accuracy::kRounding,
};

// prod: of nothing 1; i64 or floats.
const OpDef kProd = {
    .name = "prod",
    .schema = "prod(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
    .infer = infer_sum,
    .axes = axes_over_dims,
    .reference =
        [](RefCall& call) {
          return for_number(call, call.in(0).dtype(), []<typename T>(RefCall& c) {
            return reduce_lines<T, T>(c, [](const T* x, int64_t n) {
              Accumulator<T> product = 1;
              for (int64_t i = 0; i < n; ++i) product *= static_cast<Accumulator<T>>(x[i]);
              return product;
            });
          });
        },
    .accuracy = Accuracy::kRounding,
};

// var: sum of (x - mean)² / max(0, n - correction); NaN where that is 0 / 0; floats.
const OpDef kVar = {
    .name = "var",
    .schema = "var(Tensor self, int[] dims, int correction=1, bool keepdim=False) -> Tensor",
    .infer = infer_float_reduction,
    .axes = axes_over_dims,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(), []<typename T>(RefCall& c) {
            const auto correction = static_cast<double>(c.node.i("correction"));
            return reduce_lines<T, T>(c, [=](const T* x, int64_t n) {
              const double mean = sum_of(x, n) / static_cast<double>(n);
              double squares = 0;
              for (int64_t i = 0; i < n; ++i) {
                const double d = static_cast<double>(x[i]) - mean;
                squares += d * d;
              }
              return squares / std::max(0.0, static_cast<double>(n) - correction);
            });
          });
        },
    .accuracy = Accuracy::kRounding,
};

}  // namespace downhaul::ops

#include <cmath>
#include <vector>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/ops.h"

// Normalisations: y = (x - mean) / sqrt(var + eps) · weight + bias. They differ in where mean and
// variance come from: given (batch_norm), of the last dimensions (layer_norm), of a group of
// channels (group_norm). Statistics are computed in f64 in two passes, so that a large mean costs
// no digits; the variance is the biased one.
namespace downhaul::ops {

namespace {

struct Moments {
  double mean;
  double inverse_deviation;  ///< 1 / sqrt(var + eps)
};

template <typename T>
Moments moments(const T* x, int64_t n, double eps) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(n);
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - mean;
    squares += d * d;
  }
  return {mean, 1 / std::sqrt(squares / static_cast<double>(n) + eps)};
}

/// Element i of an optional vector.
template <typename T>
double value_or(const Tensor* t, int64_t i, double otherwise) {
  return t == nullptr ? otherwise : static_cast<double>(t->data<T>()[i]);
}

/// out = in · scale + shift, with scale and shift of one channel folded in f64.
template <typename T>
void scale_channel(const T* in, int64_t n, const Moments& m, double weight, double bias, T* out) {
  const double scale = m.inverse_deviation * weight;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<T>((static_cast<double>(in[i]) - m.mean) * scale + bias);
  }
}

int64_t elements_behind(const Tensor& t, int64_t dim) {
  int64_t n = 1;
  for (int64_t d = dim + 1; d < t.rank(); ++d) n *= t.size(d);
  return n;
}

TypesResult infer_batch_norm(const Node& node) {
  DH_TRY(require_float(node, "input"));
  DH_TRY(require_min_rank(node, "input", 2));
  DH_TRY(require_same_dtype(node, {"input", "weight", "bias", "mean", "var"}));
  const TensorType& input = node.type("input");
  for (const char* arg : {"weight", "bias", "mean", "var"}) {
    DH_TRY(require_shape(node, arg, {input.shape[1]}));
  }
  return one_type(input);
}

AxisMap batch_norm_axes(const Node& node) {
  AxisMap map = same_except(node, {});
  for (int o = 1; o < static_cast<int>(node.operands().size()); ++o) {
    if (node.operand(o) != nullptr) map_axis_always(map, o, 0, 1);
  }
  return map;
}

template <typename T>
Status batch_norm(RefCall& call) {
  const Tensor& input = call.in("input");
  const double eps = call.node.f("eps");
  const int64_t plane = elements_behind(input, 1);
  const T* in = input.data<T>();
  T* out = call.out().mutable_data<T>();
  for (int64_t n = 0; n < input.size(0); ++n) {
    for (int64_t c = 0; c < input.size(1); ++c, in += plane, out += plane) {
      const double var = value_or<T>(call.maybe("var"), c, 1);
      const Moments m{value_or<T>(call.maybe("mean"), c, 0), 1 / std::sqrt(var + eps)};
      scale_channel(in, plane, m, value_or<T>(call.maybe("weight"), c, 1),
                    value_or<T>(call.maybe("bias"), c, 0), out);
    }
  }
  return {};
}

TypesResult infer_layer_norm(const Node& node) {
  DH_TRY(require_float(node, "input"));
  DH_TRY(require_same_dtype(node, {"input", "weight", "bias"}));
  const TensorType& input = node.type("input");
  const Ints& normalized = node.ints("normalized_shape");
  const Shape expected(normalized.begin(), normalized.end());
  const size_t count = normalized.size();
  if (count == 0 || count > input.shape.size() ||
      Shape(input.shape.end() - static_cast<ptrdiff_t>(count), input.shape.end()) != expected) {
    return invalid_graph(cat("normalized_shape: expected the last dimensions of ", input.str(),
                             ", found ", str(expected)));
  }
  DH_TRY(require_shape(node, "weight", expected));
  DH_TRY(require_shape(node, "bias", expected));
  return one_type(input);
}

AxisMap layer_norm_axes(const Node& node) {
  return same_except_last(node, static_cast<int64_t>(node.ints("normalized_shape").size()));
}

template <typename T>
Status layer_norm(RefCall& call) {
  const Tensor& input = call.in("input");
  const Tensor* weight = call.maybe("weight");
  const Tensor* bias = call.maybe("bias");
  const double eps = call.node.f("eps");
  int64_t n = 1;
  for (const int64_t s : call.node.ints("normalized_shape")) n *= s;
  const T* in = input.data<T>();
  T* out = call.out().mutable_data<T>();
  for (int64_t row = 0; row < input.num_elements() / n; ++row, in += n, out += n) {
    const Moments m = moments(in, n, eps);
    for (int64_t i = 0; i < n; ++i) {
      const double normalized = (static_cast<double>(in[i]) - m.mean) * m.inverse_deviation;
      out[i] = static_cast<T>(normalized * value_or<T>(weight, i, 1) + value_or<T>(bias, i, 0));
    }
  }
  return {};
}

TypesResult infer_group_norm(const Node& node) {
  DH_TRY(require_float(node, "input"));
  DH_TRY(require_min_rank(node, "input", 2));
  DH_TRY(require_same_dtype(node, {"input", "weight", "bias"}));
  DH_TRY(require_int(node, "num_groups", 1));
  const TensorType& input = node.type("input");
  if (!input.shape[1].divided_by(Dim(node.i("num_groups")))) {
    return invalid_graph(cat("num_groups: expected a divisor of the ", input.shape[1].str(),
                             " channels, found ", node.i("num_groups")));
  }
  DH_TRY(require_shape(node, "weight", {input.shape[1]}));
  DH_TRY(require_shape(node, "bias", {input.shape[1]}));
  return one_type(input);
}

AxisMap group_norm_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  map_axis_always(map, 0, 0, 0);
  return map;
}

template <typename T>
Status group_norm(RefCall& call) {
  const Tensor& input = call.in("input");
  const double eps = call.node.f("eps");
  const int64_t plane = elements_behind(input, 1);
  const int64_t groups = call.node.i("num_groups");
  const int64_t channels = input.size(1) / groups;
  const T* in = input.data<T>();
  T* out = call.out().mutable_data<T>();
  for (int64_t group = 0; group < input.size(0) * groups; ++group) {
    const Moments m = moments(in, channels * plane, eps);
    for (int64_t i = 0; i < channels; ++i, in += plane, out += plane) {
      const int64_t c = group % groups * channels + i;
      scale_channel(in, plane, m, value_or<T>(call.maybe("weight"), c, 1),
                    value_or<T>(call.maybe("bias"), c, 0), out);
    }
  }
  return {};
}

}  // namespace

// batch_norm at inference: with mean and var given per channel, dimension 1.
//   input  float [N, C, ...]   weight, bias  [C] or absent (1 and 0)   mean, var  [C]
// Errors: kInvalidGraph for dtypes and sizes. Source: aten::batch_norm with training=false.
const OpDef kBatchNorm = {
    .name = "batch_norm",
    .schema =
        "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, "
        "float eps=1e-05) -> Tensor",
    .infer = infer_batch_norm,
    .axes = batch_norm_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return batch_norm<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

// layer_norm: statistics over the last dimensions, whose sizes are normalized_shape.
//   input  float [..., normalized_shape]   weight, bias  [normalized_shape] or absent (1 and 0)
// Errors: kInvalidGraph for dtypes and sizes. Source: aten::layer_norm.
const OpDef kLayerNorm = {
    .name = "layer_norm",
    .schema =
        "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? "
        "bias=None, float eps=1e-05) -> Tensor",
    .infer = infer_layer_norm,
    .axes = layer_norm_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return layer_norm<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

// group_norm: statistics over num_groups equal groups of channels (dimension 1) with all behind.
//   input  float [N, C, ...]   weight, bias  [C] or absent (1 and 0)
// Errors: kInvalidGraph for dtypes, sizes, groups that do not divide C. Source: aten::group_norm.
const OpDef kGroupNorm = {
    .name = "group_norm",
    .schema =
        "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, "
        "float eps=1e-05) -> Tensor",
    .infer = infer_group_norm,
    .axes = group_norm_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return group_norm<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

}  // namespace downhaul::ops

#include <cmath>
#include <limits>

#include "ops/elementwise.h"
#include "ops/ops.h"

// Activations: elementwise, same dtype and shape. Floats only, but for clamp; f16 and bf16 are
// computed in f32. Errors: kInvalidGraph for other dtypes.
namespace downhaul::ops {

namespace {

template <typename T>
T relu6_of_plus_3(T x) {
  const T y = x + T(3);
  return y < T(0) ? T(0) : (y > T(6) ? T(6) : y);
}

template <typename T>
T logistic(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

TypesResult infer_clamp(const Node& node) {
  DH_TRY(require_number(node, "self"));
  for (const char* bound : {"min", "max"}) {
    if (!node.has_attr(bound) || is_float(node.type("self").dtype)) continue;
    const double v = node.f(bound);
    if (std::isnan(v) || v != std::trunc(v)) {
      return invalid_graph(
          cat(bound, ": expected an integer for ", name(node.type("self").dtype), ", found ", v));
    }
  }
  return infer_same(node);
}

/// `v` as T (i64 or a float); outside T's range the nearest bound of it.
template <typename T>
T saturate(double v) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(v);
  } else {
    if (v >= 0x1p63) return std::numeric_limits<T>::max();
    if (v <= -0x1p63) return std::numeric_limits<T>::lowest();
    return static_cast<T>(v);
  }
}

template <typename T>
Status clamp(RefCall& call) {
  using Limits = std::numeric_limits<T>;
  T low = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  T high = Limits::has_infinity ? Limits::infinity() : Limits::max();
  if (call.node.has_attr("min")) low = saturate<T>(call.node.f("min"));
  if (call.node.has_attr("max")) high = saturate<T>(call.node.f("max"));
  return map_one<T>(call, [=](T x) {
    const T y = x < low ? low : x;
    return high < y ? high : y;
  });
}

TypesResult infer_prelu(const Node& node) {
  DH_TRY(require_float(node, "self"));
  DH_TRY(require_same_dtype(node, {"self", "weight"}));
  const TensorType& self = node.type("self");
  const Shape& weight = node.type("weight").shape;
  const Dim channels = self.rank() >= 2 ? self.shape[1] : Dim(1);
  const bool one = num_elements(weight) == Dim(1) && weight.size() <= 1;
  if (!one && !(weight.size() == 1 && weight[0] == channels)) {
    return invalid_graph(cat("weight: expected 1 or ", channels.str(), " slopes, found ",
                             node.type("weight").str()));
  }
  return one_type(self);
}

AxisMap prelu_axes(const Node& node) {
  AxisMap map = same_except(node, {});
  if (node.operand(1)->rank() == 1 && node.operand(0)->rank() >= 2) map_axis(map, node, 1, 0, 1);
  return map;
}

template <typename T>
Status prelu(RefCall& call) {
  const Tensor& self = call.in("self");
  const Tensor& weight = call.in("weight");
  const T* in = self.data<T>();
  const T* slopes = weight.data<T>();
  T* out = call.out().mutable_data<T>();
  int64_t inner = 1;
  for (int64_t d = 2; d < self.rank(); ++d) inner *= self.size(d);
  const int64_t channels = weight.num_elements();
  for (int64_t i = 0, n = self.num_elements(); i < n; ++i) {
    const T slope = slopes[channels == 1 ? 0 : i / inner % channels];
    out[i] = in[i] > T(0) ? in[i] : slope * in[i];
  }
  return {};
}

TypesResult infer_gelu(const Node& node) {
  DH_TRY(require_one_of(node, "approximate", {"none", "tanh"}));
  return infer_same_float(node);
}

}  // namespace

// clamp: min(max(self, min), max), a missing bound is no bound; NaN stays NaN; max wins when min is
// above it. relu is clamp(min=0), relu6 and hardtanh are clamps too. Integers need integer bounds.
const OpDef kClamp = {
    .name = "clamp",
    .schema = "clamp(Tensor self, float? min=None, float? max=None) -> Tensor",
    .infer = infer_clamp,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& call) {
          return for_number(call, call.in(0).dtype(),
                            []<typename T>(RefCall& c) { return clamp<T>(c); });
        },
};

// elu: x for x > 0, else alpha · (e^x - 1).
const OpDef kElu = {
    .name = "elu",
    .schema = "elu(Tensor self, float alpha=1.0) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          const double alpha = c.node.f("alpha");
          return map_float(c, [=]<typename T>(T x) {
            return x > T(0) ? x : static_cast<T>(alpha) * std::expm1(x);
          });
        },
    .accuracy = Accuracy::kRounding,
};

// gelu: x · Φ(x), Φ the normal distribution. "none": Φ = erfc(-x/√2) / 2, which unlike 1 + erf does
// not cancel for negative x. "tanh": Φ ≈ (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2.
// Errors: another `approximate`.
const OpDef kGelu = {
    .name = "gelu",
    .schema = "gelu(Tensor self, str approximate=\"none\") -> Tensor",
    .infer = infer_gelu,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          if (c.node.s("approximate") == "tanh") {
            return map_float(c, []<typename T>(T x) {
              const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
              return T(0.5) * x * (T(1) + std::tanh(inner));
            });
          }
          return map_float(c, []<typename T>(T x) {
            return T(0.5) * x * std::erfc(x * T(-0.70710678118654752440));
          });
        },
    .accuracy = Accuracy::kRounding,
};

// hardsigmoid: clamp(x + 3, 0, 6) / 6.
const OpDef kHardsigmoid = {
    .name = "hardsigmoid",
    .schema = "hardsigmoid(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_float(c, []<typename T>(T x) { return relu6_of_plus_3(x) / T(6); });
        },
    .accuracy = Accuracy::kRounding,
};

// hardswish: x · clamp(x + 3, 0, 6) / 6.
const OpDef kHardswish = {
    .name = "hardswish",
    .schema = "hardswish(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_float(c, []<typename T>(T x) { return x * relu6_of_plus_3(x) / T(6); });
        },
    .accuracy = Accuracy::kRounding,
};

// leaky_relu: x for x > 0, else negative_slope · x.
const OpDef kLeakyRelu = {
    .name = "leaky_relu",
    .schema = "leaky_relu(Tensor self, float negative_slope=0.01) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          const double slope = c.node.f("negative_slope");
          return map_float(
              c, [=]<typename T>(T x) { return x > T(0) ? x : static_cast<T>(slope) * x; });
        },
    .accuracy = Accuracy::kRounding,
};

// mish: x · tanh(log(1 + e^x)).
const OpDef kMish = {
    .name = "mish",
    .schema = "mish(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_float(c,
                           []<typename T>(T x) { return x * std::tanh(std::log1p(std::exp(x))); });
        },
    .accuracy = Accuracy::kRounding,
};

// prelu: x for x > 0, else weight · x; weight has one slope, or one per channel (dimension 1).
// Errors: kInvalidGraph for another number of slopes or dtype.
const OpDef kPrelu = {
    .name = "prelu",
    .schema = "prelu(Tensor self, Tensor weight) -> Tensor",
    .infer = infer_prelu,
    .axes = prelu_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return prelu<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

// sigmoid: 1 / (1 + e^-x).
const OpDef kSigmoid = {
    .name = "sigmoid",
    .schema = "sigmoid(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) { return map_float(c, []<typename T>(T x) { return logistic(x); }); },
    .accuracy = Accuracy::kRounding,
};

// silu: x / (1 + e^-x).
const OpDef kSilu = {
    .name = "silu",
    .schema = "silu(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_float(c, []<typename T>(T x) { return x / (T(1) + std::exp(-x)); });
        },
    .accuracy = Accuracy::kRounding,
};

// softplus: log(1 + e^(beta x)) / beta; x itself where beta x is above threshold.
const OpDef kSoftplus = {
    .name = "softplus",
    .schema = "softplus(Tensor self, float beta=1.0, float threshold=20.0) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          const double beta = c.node.f("beta");
          const double threshold = c.node.f("threshold");
          return map_float(c, [=]<typename T>(T x) {
            const T scaled = x * static_cast<T>(beta);
            return scaled > static_cast<T>(threshold)
                       ? x
                       : std::log1p(std::exp(scaled)) / static_cast<T>(beta);
          });
        },
    .accuracy = Accuracy::kRounding,
};

}  // namespace downhaul::ops

#include <algorithm>
#include <cmath>

#include "ops/axes.h"
#include "ops/dispatch.h"
#include "ops/infer.h"
#include "ops/ops.h"

// Between real values and integer steps: real = (step - zero_point) · scale.
//   scale       f32 or f64, rank 0, or rank 1 with one value per element of dimension `axis`
//   zero_point  integer, shape of scale
// Computed in f32 (f64 for f64). Errors: kInvalidGraph for dtypes, sizes and ranges.
namespace downhaul::ops {

namespace {

struct IntegerRange {
  int64_t lowest;
  int64_t highest;
};

IntegerRange range_of(DType dtype) {
  if (dtype == DType::kU8) return {0, 255};
  const auto bits = static_cast<int>(8 * item_size(dtype));
  return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
}

Status require_step_dtype(std::string_view what, DType dtype) {
  if (is_integer(dtype) && dtype != DType::kI64) return {};
  return invalid_graph(cat(what, ": expected u8, i8, i16 or i32, found ", name(dtype)));
}

Status require_parameters(const Node& node) {
  const TensorType& self = node.type("self");
  const TensorType& scale = node.type("scale");
  if (scale.dtype != DType::kF32 && scale.dtype != DType::kF64) {
    return invalid_graph(cat("scale: expected f32 or f64, found ", scale.str()));
  }
  if (!is_integer(node.type("zero_point").dtype)) {
    return invalid_graph(
        cat("zero_point: expected an integer dtype, found ", node.type("zero_point").str()));
  }
  if (scale.rank() != 0) {
    DH_TRY(require_axis(node, "axis", self.rank()));
    const auto axis = static_cast<size_t>(node.axis("axis", self.rank()));
    DH_TRY(require_shape(node, "scale", {self.shape[axis]}));
  }
  return require_shape(node, "zero_point", scale.shape);
}

TypesResult infer_quantize(const Node& node) {
  DH_TRY(require_float(node, "self"));
  DH_TRY(require_step_dtype("dtype", node.dtype("dtype")));
  DH_TRY(require_parameters(node));
  const IntegerRange range = range_of(node.dtype("dtype"));
  const int64_t low = node.i("quant_min");
  const int64_t high = node.i("quant_max");
  if (low > high || low < range.lowest || high > range.highest) {
    return invalid_graph(cat("quant_min, quant_max: expected a range inside [", range.lowest, ", ",
                             range.highest, "], found ", low, " and ", high));
  }
  return one_type(node.dtype("dtype"), node.type("self").shape);
}

TypesResult infer_dequantize(const Node& node) {
  DH_TRY(require_step_dtype("self", node.type("self").dtype));
  DH_TRY(require_parameters(node));
  if (!is_float(node.dtype("dtype"))) {
    return invalid_graph(
        cat("dtype: expected a floating-point dtype, found ", name(node.dtype("dtype"))));
  }
  return one_type(node.dtype("dtype"), node.type("self").shape);
}

AxisMap quantization_axes(const Node& node) {
  AxisMap map = same_except(node, {});
  if (node.operand(1)->rank() == 1) {
    const int64_t axis = node.axis("axis", node.operand(0)->rank());
    map_axis_always(map, 1, 0, axis);
    map_axis_always(map, 2, 0, axis);
  }
  return map;
}

/// Calls f(index of the element, scale, zero_point) for every element of self.
template <typename F>
void for_each_with_parameters(const RefCall& call, F f) {
  const Tensor& self = call.in("self");
  const Tensor& scale = call.in("scale");
  const Tensor& zero_point = call.in("zero_point");
  const int64_t n = self.num_elements();
  int64_t channels = 1;
  int64_t inner = n;
  if (scale.rank() == 1) {
    const int64_t axis = call.node.axis("axis", self.rank());
    channels = self.size(axis);
    inner = 1;
    for (int64_t d = axis + 1; d < self.rank(); ++d) inner *= self.size(d);
  }
  for (int64_t block = 0; block < n / inner; ++block) {
    const int64_t c = block % channels;
    const double s = scale.at(c);
    const int64_t z = zero_point.int_at(c);
    for (int64_t i = block * inner; i < (block + 1) * inner; ++i) f(i, s, z);
  }
}

template <typename T>
Status quantize(RefCall& call) {
  const T* in = call.in("self").data<T>();
  const auto low = static_cast<double>(call.node.i("quant_min"));
  const auto high = static_cast<double>(call.node.i("quant_max"));
  Tensor& out = call.out();
  for_each_with_parameters(call, [&](int64_t i, double scale, int64_t zero_point) {
    const T inverse = T(1) / static_cast<T>(scale);
    const double step =
        static_cast<double>(std::nearbyint(in[i] * inverse)) + static_cast<double>(zero_point);
    // NaN fails every comparison and becomes quant_min.
    out.set_int(i, static_cast<int64_t>(step > low ? std::min(step, high) : low));
  });
  return {};
}

template <typename T>
Status dequantize(RefCall& call) {
  const Tensor& self = call.in("self");
  T* out = call.out().mutable_data<T>();
  for_each_with_parameters(call, [&](int64_t i, double scale, int64_t zero_point) {
    const double step = self.at(i) - static_cast<double>(zero_point);
    out[i] = static_cast<T>(step) * static_cast<T>(scale);
  });
  return {};
}

}  // namespace

// quantize: clamp(round(self · (1 / scale)) + zero_point, quant_min, quant_max), round to even.
//   self float   result  u8, i8, i16 or i32
// Source: quantized_decomposed::quantize_per_tensor, quantize_per_channel.
const OpDef kQuantize = {
    .name = "quantize",
    .schema =
        "quantize(Tensor self, Tensor scale, Tensor zero_point, int axis=0, int quant_min, int "
        "quant_max, dtype dtype) -> Tensor",
    .infer = infer_quantize,
    .axes = quantization_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.in(0).dtype(),
                           []<typename T>(RefCall& c) { return quantize<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

// dequantize: (self - zero_point) · scale.
//   self u8, i8, i16 or i32   result  float
// Source: quantized_decomposed::dequantize_per_tensor, dequantize_per_channel.
const OpDef kDequantize = {
    .name = "dequantize",
    .schema =
        "dequantize(Tensor self, Tensor scale, Tensor zero_point, int axis=0, dtype dtype=f32) "
        "-> Tensor",
    .infer = infer_dequantize,
    .axes = quantization_axes,
    .reference =
        [](RefCall& call) {
          return for_float(call, call.out().dtype(),
                           []<typename T>(RefCall& c) { return dequantize<T>(c); });
        },
    .accuracy = Accuracy::kRounding,
};

}  // namespace downhaul::ops

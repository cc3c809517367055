#include "dialects/edge/functions.h"

// Kernels of the quantized library, which stock files of quantized models call. Read only.
namespace downhaul::edge {
namespace {

// quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype)
// dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, out_dtype)
Values per_tensor(Raising& r, bool quantizes) {
  Value* self = r.tensor(0);
  Value* scale = r.scalar(1, DType::kF32);
  Value* zero_point = r.scalar(2, DType::kI64);
  const int64_t low = r.integer(3), high = r.integer(4);
  if (!r.ok()) return {};
  if (quantizes)
    return {r.b.op(ops::kQuantize, {self, scale, zero_point},
                   {{"quant_min", low}, {"quant_max", high}, {"dtype", r.out().dtype}})};
  return {r.b.op(ops::kDequantize, {self, scale, zero_point}, {{"dtype", r.out().dtype}})};
}

// quantize_per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype)
// dequantize_per_channel(input, scales, zero_points?, axis, quant_min, quant_max, dtype, out_dtype)
Values per_channel(Raising& r, bool quantizes) {
  Value* self = r.tensor(0);
  Value* scales = r.cast(r.tensor(1), DType::kF32);
  Value* zero_points = r.tensor_or_null(2);
  if (!r.ok()) return {};
  if (zero_points == nullptr) {
    if (scales->rank() != 1 || !scales->dim(0).is_static()) {
      r.refuse("scales are no list");
      return {};
    }
    zero_points = r.b.constant(Tensor(DType::kI64, {scales->dim(0).value()}));
  }
  const int64_t axis = r.axis(3, self->rank());
  const int64_t low = r.integer(4), high = r.integer(5);
  if (!r.ok()) return {};
  if (quantizes)
    return {r.b.op(
        ops::kQuantize, {self, scales, zero_points},
        {{"axis", axis}, {"quant_min", low}, {"quant_max", high}, {"dtype", r.out().dtype}})};
  return {r.b.op(ops::kDequantize, {self, scales, zero_points},
                 {{"axis", axis}, {"dtype", r.out().dtype}})};
}

}  // namespace

Values raise_quantize_per_tensor(Raising& r) { return per_tensor(r, true); }
Values raise_dequantize_per_tensor(Raising& r) { return per_tensor(r, false); }
Values raise_quantize_per_channel(Raising& r) { return per_channel(r, true); }
Values raise_dequantize_per_channel(Raising& r) { return per_channel(r, false); }

}  // namespace downhaul::edge

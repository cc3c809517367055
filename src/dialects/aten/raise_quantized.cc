// Quantisation as PyTorch's PT2E flow writes it: parameters of activations are numbers in the node
// or tensors, those of weights are tensors with one entry a channel.
#include "base/strings.h"
#include "dialects/aten/raise.h"

namespace downhaul::aten {
namespace {

struct Parameters {
  Value* scale = nullptr;
  Value* zero_point = nullptr;
};

Value* as_rank0(Call& c, Value* v) { return rank_of(v) == 0 ? v : c.reshape(v, {}); }

Parameters per_tensor(Call& c) {
  return {as_rank0(c, c.as_tensor(c.operand("scale"), DType::kF32)),
          as_rank0(c, c.as_tensor(c.operand("zero_point"), DType::kI64))};
}

Parameters per_channel(Call& c) {
  Value* scale = c.cast(c.tensor("scales"), DType::kF32);
  if (c.has("zero_points")) {
    return {scale, c.cast(c.tensor("zero_points"), DType::kI64)};
  }
  return {scale, c.expand(c.scalar(DType::kI64, 0), dims_of(scale))};
}

DType quantized_dtype(Call& c) { return c.dtype("dtype").value_or(DType::kI8); }

Out quantized(Call& c, const Parameters& p, int64_t axis) {
  return c.op(ops::kQuantize, {c.tensor("input"), p.scale, p.zero_point},
              {{"axis", axis},
               {"quant_min", c.i("quant_min")},
               {"quant_max", c.i("quant_max")},
               {"dtype", quantized_dtype(c)}});
}

Out dequantized(Call& c, const Parameters& p, int64_t axis) {
  Value* input = c.tensor("input");
  if (dtype_of(input) != quantized_dtype(c)) {
    c.invalid(cat("input is ", name(dtype_of(input)), ", expected ", name(quantized_dtype(c))));
  }
  return c.op(ops::kDequantize, {input, p.scale, p.zero_point},
              {{"axis", axis}, {"dtype", c.dtype("out_dtype").value_or(DType::kF32)}});
}

}  // namespace

Out raise_quantize_per_tensor(Call& c) { return quantized(c, per_tensor(c), 0); }
Out raise_dequantize_per_tensor(Call& c) { return dequantized(c, per_tensor(c), 0); }
Out raise_quantize_per_channel(Call& c) {
  return quantized(c, per_channel(c), c.axis("axis", rank_of(c.tensor("input"))));
}
Out raise_dequantize_per_channel(Call& c) {
  return dequantized(c, per_channel(c), c.axis("axis", rank_of(c.tensor("input"))));
}

// Affine parameters for the range of `input` widened to hold 0:
//   scale = max((hi - lo) / (quant_max - quant_min), eps)
//   zero_point = clamp(quant_min - round(lo / scale), quant_min, quant_max)
Out raise_choose_qparams(Call& c) {
  Value* input = c.cast(c.tensor("input"), DType::kF32);
  Ints dims;
  for (int64_t d = 0; d < rank_of(input); ++d) dims.push_back(d);
  const auto low = static_cast<double>(c.i("quant_min"));
  const auto high = static_cast<double>(c.i("quant_max"));
  const auto extreme = [&](const OpDef& op, const char* bound) {
    Value* e = dims.empty() ? input : c.op(op, {input}, {{"dims", dims}});
    return c.op(ops::kClamp, {e}, {{bound, 0.0}});
  };
  Value* lo = extreme(ops::kAmin, "max");
  Value* hi = extreme(ops::kAmax, "min");
  Value* scale = c.binary(ops::kDiv, c.sub(hi, lo), c.scalar(DType::kF32, high - low));
  scale = c.op(ops::kClamp, {scale}, {{"min", c.f("eps")}});
  Value* steps = c.op(ops::kRound, {c.binary(ops::kDiv, lo, scale)});
  Value* zero_point =
      c.op(ops::kClamp, {c.sub(c.scalar(DType::kF32, low), steps)}, {{"min", low}, {"max", high}});
  return std::vector<Value*>{c.reshape(c.cast(scale, DType::kF64), {1}),
                             c.reshape(c.cast(zero_point, DType::kI64), {1})};
}

}  // namespace downhaul::aten

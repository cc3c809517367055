// Operations that unpack compressed weights when the model is loaded.
#include "base/strings.h"
#include "dialects/mil/raiser.h"

namespace downhaul::coreml {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 31;

/// (q - zero_point) · scale, along `axis` or for all.
Values affine_dequantize(RaiseCall& c) {
  const Tensor q = c.tensor("quantized_data");
  const Tensor zero = c.tensor("zero_point");
  const Tensor scale = c.tensor("scale");
  const int64_t axis = c.axis(c.integer("axis", 0), q.rank());
  if (!c.ok() || q.rank() == 0) return {c.refuse("quantized_data: expected a tensor")};
  const int64_t count = q.size(axis);
  for (const Tensor* t : {&zero, &scale}) {
    if (t->num_elements() != 1 && t->num_elements() != count) {
      return {c.refuse("zero_point and scale: expected one, or one for each slice of the axis")};
    }
  }
  int64_t inner = 1;
  for (int64_t d = axis + 1; d < q.rank(); ++d) inner *= q.size(d);
  Tensor out(scale.dtype(), q.sizes());
  for (int64_t i = 0; i < q.num_elements(); ++i) {
    const int64_t slice = i / inner % count;
    const double z = zero.at(zero.num_elements() == 1 ? 0 : slice);
    out.set(i, (q.at(i) - z) * scale.at(scale.num_elements() == 1 ? 0 : slice));
  }
  return {c.b.constant(std::move(out), c.op().outputs[0].name)};
}

/// lut[index], with indices packed low bits first.
Values lut_to_dense(RaiseCall& c) {
  const Tensor packed = c.tensor("indices");
  const Tensor lut = c.tensor("lut");
  const Ints shape = c.ints("shape");  // uint32 in the file
  const auto elements = checked_num_elements(shape);
  int bits = 0;
  while (bits < 8 && (int64_t{1} << bits) < lut.num_elements()) ++bits;
  if (!c.ok() || !elements || *elements > kMaxElements ||
      lut.num_elements() != int64_t{1} << bits || bits == 0 ||
      packed.num_elements() < (*elements * bits + 7) / 8 || packed.dtype() != DType::kU8) {
    return {c.refuse("a table of 2, 4, 16, 64 or 256 entries and indices for every element")};
  }
  const uint8_t* from = packed.data<uint8_t>();
  Tensor out(lut.dtype(), shape);
  for (int64_t i = 0; i < *elements; ++i) {
    const int64_t bit = i * bits;
    uint32_t window = from[bit / 8];
    if (bit % 8 + bits > 8) window |= static_cast<uint32_t>(from[bit / 8 + 1]) << 8;
    out.set(i, lut.at(static_cast<int64_t>(window >> (bit % 8) & ((1u << bits) - 1))));
  }
  return {c.b.constant(std::move(out), c.op().outputs[0].name)};
}

Values constexpr_cast(RaiseCall& c) {
  const Tensor source = c.tensor("source_val");
  const std::string to = c.text("output_dtype", "fp32");
  if (to != "fp32" && to != "fp16") return {c.refuse(cat("output_dtype ", printable(to, 40)))};
  return {
      c.b.constant(source.cast(to == "fp32" ? DType::kF32 : DType::kF16), c.op().outputs[0].name)};
}

constexpr RaiseRow kRows[] = {
    {"constexpr_affine_dequantize", affine_dequantize},
    {"constexpr_cast", constexpr_cast},
    {"constexpr_lut_to_dense", lut_to_dense},
};

}  // namespace

std::span<const RaiseRow> raise_weight_rows() { return kRows; }

}  // namespace downhaul::coreml

// Normalisations with learned or stored statistics, and softmax.
#include "base/strings.h"
#include "dialects/aten/raise.h"
#include "dialects/aten/shapes.h"

namespace downhaul::aten {
namespace {

Out stored_batch_norm(Call& c) {
  if (!c.has("running_mean") || !c.has("running_var")) {
    c.fail("no running statistics; only inference with stored statistics is handled");
    return {};
  }
  return c.op(ops::kBatchNorm,
              {c.tensor("input"), c.maybe_tensor("weight"), c.maybe_tensor("bias"),
               c.tensor("running_mean"), c.tensor("running_var")},
              {{"eps", c.f("eps")}});
}

Out along(Call& c, Value* v) {
  const int64_t dim = c.axis("dim", rank_of(v));
  if (rank_of(v) != 0) return c.op(c.row_op(), {v}, {{"dim", dim}});
  return c.reshape(c.op(c.row_op(), {c.reshape(v, {1})}, {{"dim", int64_t{0}}}), {});
}

}  // namespace

Out raise_batch_norm(Call& c) {
  if (c.b("training")) {
    c.fail("batch norm in training mode; export the model after model.eval()");
    return {};
  }
  return stored_batch_norm(c);
}

Out raise_native_batch_norm(Call& c) { return stored_batch_norm(c); }

namespace {

// Statistics of each image and channel: a group norm with one channel a group.
Out norm_of_each_channel(Call& c) {
  Value* input = c.tensor("input");
  if (!c.ok()) return {};
  if (input->rank() < 3 || !input->dim(1).is_static()) {
    c.fail(cat("an input of type ", input->type().str()));
    return {};
  }
  return c.op(ops::kGroupNorm, {input, c.maybe_tensor("weight"), c.maybe_tensor("bias")},
              {{"num_groups", input->dim(1).value()}, {"eps", c.f("eps")}});
}

}  // namespace

Out raise_instance_norm(Call& c) {
  return c.b("use_input_stats") ? norm_of_each_channel(c) : stored_batch_norm(c);
}

// What decomposing an instance norm leaves: images moved into the channels of one.
Out raise_batch_statistics_norm(Call& c) {
  Value* input = c.tensor("input");
  if (!c.ok()) return {};
  if (input->rank() == 0 || !(input->dim(0) == Dim(1))) {
    c.fail("statistics of a whole batch; export the model after model.eval()");
    return {};
  }
  return norm_of_each_channel(c);
}

// x / sqrt(mean(x²) + eps) · weight over the last dimensions.
Out raise_rms_norm(Call& c) {
  Value* x = c.tensor("input");
  const auto count = static_cast<int64_t>(c.dims("normalized_shape").size());
  const int64_t rank = rank_of(x);
  if (count < 1 || count > rank) {
    c.invalid(cat("normalized_shape has ", count, " entries for rank ", rank));
    return {};
  }
  Ints dims;
  for (int64_t d = rank - count; d < rank; ++d) dims.push_back(d);
  const DType dtype = dtype_of(x);
  // Machine epsilon of the dtype when none is given.
  const double eps = c.maybe_f("eps").value_or(dtype == DType::kF64    ? 0x1p-52
                                               : dtype == DType::kF16  ? 0x1p-10
                                               : dtype == DType::kBF16 ? 0x1p-7
                                                                       : 0x1p-23);
  Value* wide = c.cast(x, dtype == DType::kF64 ? dtype : DType::kF32);
  Value* mean = c.op(ops::kMean, {c.mul(wide, wide)}, {{"dims", dims}, {"keepdim", true}});
  Value* factor = c.op(ops::kRsqrt, {c.add(mean, c.scalar(dtype_of(wide), eps))});
  Value* y = c.mul(wide, factor);
  if (c.has("weight")) y = c.mul(y, c.cast(c.tensor("weight"), dtype_of(wide)));
  return c.cast(y, dtype);
}

Out raise_softmax(Call& c) {
  Value* v = c.tensor("self");
  if (const std::optional<DType> dtype = c.dtype("dtype")) v = c.cast(v, *dtype);
  if (!is_float(dtype_of(v))) v = c.cast(v, DType::kF32);
  return along(c, v);
}

Out raise_softmax_decomposed(Call& c) {
  Value* v = c.tensor("self");
  if (c.b("half_to_float")) v = c.cast(v, DType::kF32);
  return along(c, v);
}

}  // namespace downhaul::aten

#include <cmath>

#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

// Tensors from nothing but attributes; no operand, so no axes.
namespace downhaul::ops {

namespace {

TypesResult infer_arange(const Node& node) {
  const int64_t step = node.i("step");
  if (step == 0 || step == INT64_MIN) {
    return invalid_graph(cat("step: expected a non-zero step, found ", step));
  }
  if (node.dtype("dtype") == DType::kBool) {
    return invalid_graph("dtype: expected an integer or floating-point dtype, found bool");
  }
  const Dim start = node.dim("start");
  const Dim end = node.dim("end");
  const Dim span = step > 0 ? end - start : start - end;
  if (span.max() < 0) {
    return invalid_graph(cat("end: expected an end in the direction of step ", step, " from ",
                             start.str(), ", found ", end.str()));
  }
  return one_type(node.dtype("dtype"), {ceil_div(span, step > 0 ? step : -step)});
}

TypesResult infer_full(const Node& node) {
  DH_TRY(require_sizes(node, "size"));
  const DType dtype = node.dtype("dtype");
  const double value = node.f("value");
  if (is_integer(dtype) && (!std::isfinite(value) || value != std::trunc(value))) {
    return invalid_graph(cat("value: expected an integer for ", name(dtype), ", found ", value));
  }
  return one_type(dtype, node.dims("size"));
}

}  // namespace

// arange: start, start + step, …, up to but without end; [ceil((end - start) / step)].
// Errors: kInvalidGraph for step 0, an end on the wrong side, dtype bool.
// Source: aten::arange.start_step with integer arguments.
const OpDef kArange = {
    .name = "arange",
    .schema = "arange(dim start, dim end, int step=1, dtype dtype=i64) -> Tensor",
    .infer = infer_arange,
    .axes = nullptr,
    .reference = [](RefCall& call) -> Status {
      const int64_t start = call.size("start");
      const int64_t step = call.node.i("step");
      for (int64_t i = 0, n = call.out().num_elements(); i < n; ++i) {
        // Unsigned: the product may leave i64 where the sum does not.
        const uint64_t offset = static_cast<uint64_t>(i) * static_cast<uint64_t>(step);
        call.out().set_int(i, static_cast<int64_t>(static_cast<uint64_t>(start) + offset));
      }
      return {};
    },
};

// dim_scalar: a size of this run as a tensor of rank 0. Source: sym_size used as a tensor.
const OpDef kDimScalar = {
    .name = "dim_scalar",
    .schema = "dim_scalar(dim value, dtype dtype=i64) -> Tensor",
    .infer = [](const Node& node) -> TypesResult { return one_type(node.dtype("dtype"), {}); },
    .axes = nullptr,
    .reference = [](RefCall& call) -> Status {
      call.out().set_int(0, call.size("value"));
      return {};
    },
};

// full: every element is `value`.
// Errors: kInvalidGraph for a negative size or a value that an integer dtype cannot hold.
const OpDef kFull = {
    .name = "full",
    .schema = "full(dim[] size, float value, dtype dtype) -> Tensor",
    .infer = infer_full,
    .axes = nullptr,
    .reference = [](RefCall& call) -> Status {
      const Tensor one = Tensor::scalar(call.out().dtype(), call.node.f("value"));
      strided_copy(one, 0, std::vector<int64_t>(call.out().sizes().size(), 0), call.out());
      return {};
    },
};

}  // namespace downhaul::ops

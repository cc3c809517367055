#include <cmath>

#include "base/strings.h"
#include "dialects/edge/functions.h"

// Tensors made from numbers.
namespace downhaul::edge {
namespace {

Values full(Raising& r, Dims size, double value) {
  if (!r.ok()) return {};
  return {r.b.op(ops::kFull, {},
                 {{"size", std::move(size)}, {"value", value}, {"dtype", r.out().dtype}})};
}

Values arange(Raising& r, std::optional<size_t> start_arg, size_t end_arg,
              std::optional<size_t> step_arg) {
  const DType dtype = r.out().dtype;
  const auto is_integer = [&](std::optional<size_t> i) {
    if (!i.has_value() || *i >= r.size()) return true;
    if (std::holds_alternative<Dim>(r.call.args[*i])) return true;
    const double v = r.number(*i);
    return std::nearbyint(v) == v && std::fabs(v) < 9e15;
  };
  const auto read = [&](std::optional<size_t> i, int64_t otherwise) -> Dim {
    if (!i.has_value() || *i >= r.size()) return otherwise;
    if (std::holds_alternative<Dim>(r.call.args[*i])) return r.dim(*i);
    return static_cast<int64_t>(r.number(*i));
  };
  if (is_integer(start_arg) && is_integer(end_arg) && is_integer(step_arg)) {
    const Dim step = read(step_arg, 1);
    if (!step.is_static() || step.value() == 0) r.refuse("step is no integer other than 0");
    const Dim start = read(start_arg, 0), end = read(end_arg, 0);
    if (!r.ok()) return {};
    Value* v = r.b.op(ops::kArange, {},
                      {{"start", start},
                       {"end", end},
                       {"step", step.value()},
                       {"dtype", is_float(dtype) ? DType::kI64 : dtype}});
    return {r.cast(v, dtype)};
  }
  const double start = start_arg.has_value() ? r.number(*start_arg) : 0;
  const double step = step_arg.has_value() ? r.number(*step_arg) : 1;
  const double count = std::ceil((r.number(end_arg) - start) / step);
  if (!(count >= 0 && count < 1 << 24)) r.refuse("unusual range");
  if (!r.ok()) return {};
  Tensor t(dtype, {static_cast<int64_t>(count)});
  for (int64_t i = 0; i < t.num_elements(); ++i) t.set(i, start + static_cast<double>(i) * step);
  return {r.b.constant(std::move(t))};
}

}  // namespace

// --- full(size, value)

Result<KernelCall> emit_full(const Node& node) {
  return call_of(node, "aten::full.out",
                 {dims(node.dims("size")), scalar(node.f("value"), node.dtype("dtype"))});
}

Values raise_full(Raising& r) { return full(r, r.dims(0), r.number(1)); }

Values raise_full_like(Raising& r) {
  Value* self = r.tensor(0);
  const double value = r.number(1);
  if (!r.ok()) return {};
  return full(r, self->shape(), value);
}

Values raise_zeros(Raising& r) { return full(r, r.dims(0), 0); }
Values raise_ones(Raising& r) { return full(r, r.dims(0), 1); }

// --- arange(start, end, step)

Result<KernelCall> emit_arange(const Node& node) {
  return call_of(node, "aten::arange.start_out",
                 {integer(node.dim("start")), integer(node.dim("end")), integer(node.i("step"))});
}

Values raise_arange(Raising& r) { return arange(r, 0, 1, 2); }
Values raise_arange_end(Raising& r) { return arange(r, std::nullopt, 0, std::nullopt); }

// --- a number that follows from sizes

Result<KernelCall> emit_dim_scalar(const Node& node) {
  return call_of(node, "aten::scalar_tensor.out", {integer(node.dim("value"))});
}

Values raise_scalar_tensor(Raising& r) { return {r.scalar(0, r.out().dtype)}; }

}  // namespace downhaul::edge

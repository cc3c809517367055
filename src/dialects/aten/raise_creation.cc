// Tensors made from numbers.
#include <cmath>
#include <limits>

#include "base/strings.h"
#include "dialects/aten/raise.h"

namespace downhaul::aten {
namespace {

DType dtype_of_number(const Number& n) {
  switch (n.kind) {
    case Number::Kind::kBool:
      return DType::kBool;
    case Number::Kind::kInt:
      return DType::kI64;
    default:
      return DType::kF32;
  }
}

Value* filled(Call& c, Dims size, const Number& value, DType dtype) {
  // Beyond 2^53 an integer would be rounded on its way through the attribute.
  constexpr int64_t kExact = int64_t{1} << 53;
  if (value.symbolic || (value.kind == Number::Kind::kInt && std::abs(value.f) > kExact)) {
    return c.expand(c.scalar(dtype, value), std::move(size));
  }
  return c.op(ops::kFull, {}, {{"size", std::move(size)}, {"value", value.f}, {"dtype", dtype}});
}

Value* filled_like(Call& c, const Number& value) {
  Value* self = c.tensor("self");
  return filled(c, dims_of(self), value, c.dtype("dtype").value_or(dtype_of(self)));
}

Value* new_filled(Call& c, const Number& value) {
  Value* self = c.tensor("self");
  return filled(c, c.dims("size"), value, c.dtype("dtype").value_or(dtype_of(self)));
}

// Creation folded while reading is for small tensors: sizes come from the file.
constexpr int64_t kMaxFolded = int64_t{1} << 20;

Value* arange(Call& c, const Number& start, const Number& end, const Number& step) {
  const bool integers = start.kind != Number::Kind::kFloat && end.kind != Number::Kind::kFloat &&
                        step.kind != Number::Kind::kFloat;
  const DType dtype = c.dtype("dtype").value_or(integers ? DType::kI64 : DType::kF32);
  if (step.symbolic || (integers && step.i == 0) || (!integers && !(std::abs(step.f) > 0))) {
    c.fail("argument 'step', expected a fixed number other than 0");
    return nullptr;
  }
  if (integers) {
    const Dim first = start.symbolic.value_or(Dim(start.i));
    const Dim last = end.symbolic.value_or(Dim(end.i));
    const bool direct = dtype == DType::kI64 || dtype == DType::kI32;
    Value* v = c.op(ops::kArange, {},
                    {{"start", first},
                     {"end", last},
                     {"step", step.i},
                     {"dtype", direct ? dtype : DType::kI64}});
    return c.cast(v, dtype);
  }
  if (start.symbolic || end.symbolic) {
    c.fail("a range of floats with a dynamic size");
    return nullptr;
  }
  const double count = std::ceil((end.f - start.f) / step.f);
  if (!(count >= 0) || count > static_cast<double>(kMaxFolded)) {
    c.invalid(cat("a range from ", start.f, " to ", end.f, " in steps of ", step.f));
    return nullptr;
  }
  Tensor t(dtype, {static_cast<int64_t>(count)});
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.set(i, start.f + static_cast<double>(i) * step.f);
  }
  return c.constant(std::move(t));
}

}  // namespace

Out raise_arange(Call& c) {
  return arange(c, Number::of(int64_t{0}), c.number("end"), Number::of(int64_t{1}));
}
Out raise_arange_start(Call& c) {
  return arange(c, c.number("start"), c.number("end"), Number::of(int64_t{1}));
}
Out raise_arange_start_step(Call& c) {
  return arange(c, c.number("start"), c.number("end"), c.number("step"));
}

Out raise_linspace(Call& c) {
  const double start = c.f("start");
  const double end = c.f("end");
  const int64_t steps = c.i("steps");
  if (steps < 0 || steps > kMaxFolded) {
    c.invalid(cat("argument 'steps' is ", steps));
    return {};
  }
  Tensor t(c.dtype("dtype").value_or(DType::kF32), {steps});
  // As torch does it: from the start in the first half, from the end in the second, in the
  // precision of the result.
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  const bool single = t.dtype() == DType::kF32;
  const auto rounded = [&](double v) { return single ? static_cast<float>(v) : v; };
  for (int64_t i = 0; i < steps; ++i) {
    const double offset = i < steps / 2 ? start : end;
    const auto distance = static_cast<double>(i < steps / 2 ? i : i - steps + 1);
    t.set(i, steps == 1 ? start : rounded(offset) + rounded(rounded(step) * distance));
  }
  return c.constant(std::move(t));
}

Out raise_eye(Call& c) {
  const int64_t n = c.i("n");
  if (n < 0 || n > 2048) {
    c.invalid(cat("argument 'n' is ", n));
    return {};
  }
  Tensor t(c.dtype("dtype").value_or(DType::kF32), {n, n});
  for (int64_t i = 0; i < n; ++i) t.set_int(i * n + i, 1);
  return c.constant(std::move(t));
}

Out raise_full(Call& c) {
  const Number value = c.number("fill_value");
  return filled(c, c.dims("size"), value, c.dtype("dtype").value_or(dtype_of_number(value)));
}
Out raise_ones(Call& c) {
  return filled(c, c.dims("size"), Number::of(int64_t{1}), c.dtype("dtype").value_or(DType::kF32));
}
// Also for tensors that torch leaves uninitialised: any content is right, and zeros repeat.
Out raise_zeros(Call& c) {
  return filled(c, c.dims("size"), Number::of(int64_t{0}), c.dtype("dtype").value_or(DType::kF32));
}
Out raise_full_like(Call& c) { return filled_like(c, c.number("fill_value")); }
Out raise_ones_like(Call& c) { return filled_like(c, Number::of(int64_t{1})); }
Out raise_zeros_like(Call& c) { return filled_like(c, Number::of(int64_t{0})); }
Out raise_new_full(Call& c) { return new_filled(c, c.number("fill_value")); }
Out raise_new_ones(Call& c) { return new_filled(c, Number::of(int64_t{1})); }
Out raise_new_zeros(Call& c) { return new_filled(c, Number::of(int64_t{0})); }

Out raise_scalar_tensor(Call& c) {
  return c.scalar(c.dtype("dtype").value_or(DType::kF32), c.number("s"));
}

Out raise_fill(Call& c) {
  Value* self = c.tensor("self");
  const Operand value = c.operand("value");
  if (const Number* n = std::get_if<Number>(&value)) {
    return filled(c, dims_of(self), *n, dtype_of(self));
  }
  return c.expand(c.as_tensor(value, dtype_of(self)), dims_of(self));
}

Out raise_zero(Call& c) {
  Value* self = c.tensor("self");
  return filled(c, dims_of(self), Number::of(int64_t{0}), dtype_of(self));
}

}  // namespace downhaul::aten

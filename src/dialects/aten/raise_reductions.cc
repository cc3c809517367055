// Reductions. The IR names every dimension that is reduced; torch's "all" is spelled out.
#include <array>
#include <cmath>

#include "base/strings.h"
#include "dialects/aten/raise.h"
#include "dialects/aten/shapes.h"

namespace downhaul::aten {
namespace {

Ints all_axes(const Value* v) {
  Ints dims;
  for (int64_t d = 0; d < rank_of(v); ++d) dims.push_back(d);
  return dims;
}

Value* reduce(Call& c, const OpDef& op, Value* v, Ints dims, bool keepdim) {
  if (dims.empty() && rank_of(v) == 0) {
    // Nothing to reduce, but sums of one element are still of the operator's dtype.
    return &op == &ops::kAll || &op == &ops::kAny ? c.cast(v, DType::kBool) : v;
  }
  return c.op(op, {v}, {{"dims", std::move(dims)}, {"keepdim", keepdim}});
}

// Integers and bools are summed in int64; an explicit dtype casts before.
Value* summand(Call& c) {
  Value* v = c.tensor("self");
  if (const std::optional<DType> dtype = c.dtype("dtype")) return c.cast(v, *dtype);
  return is_float(dtype_of(v)) ? v : c.cast(v, DType::kI64);
}

Value* averaged(Call& c) {
  Value* v = c.tensor("self");
  if (const std::optional<DType> dtype = c.dtype("dtype")) return c.cast(v, *dtype);
  return v;
}

Value* variance(Call& c, Ints dims, int64_t correction, bool keepdim) {
  return c.op(ops::kVar, {c.tensor("self")},
              {{"dims", std::move(dims)}, {"correction", correction}, {"keepdim", keepdim}});
}

// `correction` is a number for torch; the IR takes the integers that models use.
int64_t correction_of(Call& c) {
  const Number n = c.maybe_number("correction").value_or(Number::of(int64_t{1}));
  if (n.symbolic || n.f != std::floor(n.f)) {
    c.fail("argument 'correction', expected a fixed integer");
    return 1;
  }
  return static_cast<int64_t>(n.f);
}

Value* corrected(Call& c) {
  Value* v = c.tensor("self");
  return variance(c, c.axes("dim", rank_of(v)), correction_of(c), c.b("keepdim"));
}
Value* unbiased(Call& c) {
  Value* v = c.tensor("self");
  return variance(c, c.axes("dim", rank_of(v)), c.b("unbiased") ? 1 : 0, c.b("keepdim"));
}
Value* unbiased_all(Call& c) {
  return variance(c, all_axes(c.tensor("self")), c.b("unbiased") ? 1 : 0, false);
}

Value* vector_norm(Call& c, Value* v, double ord, const Ints& dims, bool keepdim) {
  if (std::isinf(ord)) {
    return reduce(c, ord > 0 ? ops::kAmax : ops::kAmin, c.op(ops::kAbs, {v}), dims, keepdim);
  }
  if (ord == 2.0) return c.op(ops::kSqrt, {reduce(c, ops::kSum, c.mul(v, v), dims, keepdim)});
  Value* magnitude = c.op(ops::kAbs, {v});
  if (ord == 1.0) return reduce(c, ops::kSum, magnitude, dims, keepdim);
  if (ord == 0.0) {
    c.fail("a norm of order 0");
    return nullptr;
  }
  const DType dtype = dtype_of(v);
  Value* powers = c.binary(ops::kPow, magnitude, c.scalar(dtype, ord));
  return c.binary(ops::kPow, reduce(c, ops::kSum, powers, dims, keepdim),
                  c.scalar(dtype, 1.0 / ord));
}

Out extremum_dim(Call& c, const OpDef& value_op, const OpDef& index_op) {
  Value* v = c.tensor("self");
  const bool keepdim = c.b("keepdim");
  const int64_t dim = c.axis("dim", rank_of(v));
  if (!c.ok()) return {};
  if (v->rank() == 0) return std::vector<Value*>{v, c.scalar(DType::kI64, 0)};
  return std::vector<Value*>{reduce(c, value_op, v, {dim}, keepdim),
                             c.op(index_op, {v}, {{"dim", dim}, {"keepdim", keepdim}})};
}

}  // namespace

Out raise_truth(Call& c) {
  Value* v = c.cast(c.tensor("self"), DType::kBool);
  return reduce(c, c.row_op(), v, all_axes(v), false);
}

Out raise_truth_dims(Call& c) {
  Value* v = c.cast(c.tensor("self"), DType::kBool);
  return reduce(c, c.row_op(), v, c.axes("dim", rank_of(v)), c.b("keepdim"));
}

Out raise_reduce_all(Call& c) {
  Value* v = c.tensor("self");
  return reduce(c, c.row_op(), v, all_axes(v), false);
}

Out raise_reduce_dims(Call& c) {
  Value* v = c.tensor("self");
  return reduce(c, c.row_op(), v, c.axes("dim", rank_of(v)), c.b("keepdim"));
}

Out raise_max_dim(Call& c) { return extremum_dim(c, ops::kAmax, ops::kArgmax); }
Out raise_min_dim(Call& c) { return extremum_dim(c, ops::kAmin, ops::kArgmin); }

Out raise_arg_extremum(Call& c) {
  Value* v = c.tensor("self");
  const bool keepdim = c.b("keepdim");
  const Shape shape = dims_of(v);
  if (rank_of(v) == 0) return c.scalar(DType::kI64, 0);
  if (c.has("dim")) {
    return c.op(c.row_op(), {v}, {{"dim", c.axis("dim", rank_of(v))}, {"keepdim", keepdim}});
  }
  Value* flat = c.reshape(v, {num_elements(shape)});
  Value* index = c.op(c.row_op(), {flat}, {{"dim", int64_t{0}}});
  return keepdim ? c.reshape(index, Dims(shape.size(), Dim(1))) : index;
}

Out raise_sum(Call& c) {
  Value* v = summand(c);
  return reduce(c, ops::kSum, v, all_axes(v), false);
}
Out raise_sum_dims(Call& c) {
  Value* v = summand(c);
  return reduce(c, ops::kSum, v, c.axes("dim", rank_of(v)), c.b("keepdim"));
}
Out raise_mean(Call& c) {
  Value* v = averaged(c);
  return reduce(c, ops::kMean, v, all_axes(v), false);
}
Out raise_mean_dims(Call& c) {
  Value* v = averaged(c);
  return reduce(c, ops::kMean, v, c.axes("dim", rank_of(v)), c.b("keepdim"));
}
Out raise_prod(Call& c) {
  Value* v = summand(c);
  return reduce(c, ops::kProd, v, all_axes(v), false);
}
Out raise_prod_dim(Call& c) {
  Value* v = summand(c);
  const int64_t dim = c.axis("dim", rank_of(v));
  return reduce(c, ops::kProd, v, rank_of(v) == 0 ? Ints{} : Ints{dim}, c.b("keepdim"));
}

Out raise_var(Call& c) { return corrected(c); }
Out raise_var_unbiased(Call& c) { return unbiased(c); }
Out raise_var_all(Call& c) { return unbiased_all(c); }
Out raise_std(Call& c) { return c.op(ops::kSqrt, {corrected(c)}); }
Out raise_std_unbiased(Call& c) { return c.op(ops::kSqrt, {unbiased(c)}); }
Out raise_std_all(Call& c) { return c.op(ops::kSqrt, {unbiased_all(c)}); }
Out raise_var_mean(Call& c) {
  Value* v = c.tensor("self");
  return std::vector<Value*>{corrected(c),
                             reduce(c, ops::kMean, v, c.axes("dim", rank_of(v)), c.b("keepdim"))};
}

Out raise_var_mean_unbiased(Call& c) {
  Value* v = c.tensor("self");
  return std::vector<Value*>{unbiased(c),
                             reduce(c, ops::kMean, v, c.axes("dim", rank_of(v)), c.b("keepdim"))};
}

Out raise_aminmax(Call& c) {
  Value* v = c.tensor("self");
  const Ints dims = c.axes("dim", rank_of(v));
  const bool keepdim = c.b("keepdim");
  return std::vector<Value*>{reduce(c, ops::kAmin, v, dims, keepdim),
                             reduce(c, ops::kAmax, v, dims, keepdim)};
}

// m + log(sum(exp(x - m))) with the largest element m, or 0 where that is infinite.
Out raise_logsumexp(Call& c) {
  Value* v = c.tensor("self");
  if (!is_float(dtype_of(v))) v = c.cast(v, DType::kF32);
  const Ints dims = c.axes("dim", rank_of(v));
  const bool keepdim = c.b("keepdim");
  Value* most = reduce(c, ops::kAmax, v, dims, true);
  most = c.op(ops::kWhere, {c.op(ops::kIsInf, {most}), c.scalar(dtype_of(v), 0), most});
  Value* sum = reduce(c, ops::kSum, c.op(ops::kExp, {c.sub(v, most)}), dims, keepdim);
  if (sum == nullptr) return {};
  return c.add(c.op(ops::kLog, {sum}), c.reshape(most, sum->shape()));
}

// All elements in order are the "top" ones.
Out raise_sort(Call& c) {
  Value* v = c.tensor("self");
  const int64_t dim = c.axis("dim", rank_of(v));
  if (!c.ok()) return {};
  if (v->rank() == 0) return std::vector<Value*>{v, c.scalar(DType::kI64, 0)};
  if (!v->dim(dim).is_static()) {
    c.fail(cat("along the dynamic size ", v->dim(dim).str()));
    return {};
  }
  return c.op_multi(
      ops::kTopk, {v},
      {{"k", v->dim(dim).value()}, {"dim", dim}, {"largest", c.b("descending")}, {"sorted", true}});
}

Out raise_vector_norm(Call& c) {
  Value* v = averaged(c);
  return vector_norm(c, v, c.f("ord"), c.axes("dim", rank_of(v)), c.b("keepdim"));
}

Out raise_norm(Call& c) {
  Value* v = c.tensor("self");
  return vector_norm(c, v, c.maybe_f("p").value_or(2.0), c.axes("dim", rank_of(v)), c.b("keepdim"));
}

Out raise_cumsum(Call& c) {
  Value* v = summand(c);
  const int64_t dim = c.axis("dim", rank_of(v));
  if (rank_of(v) == 0) return v;
  return c.op(ops::kCumsum, {v}, {{"dim", dim}});
}

Out raise_diff(Call& c) {
  Value* v = c.tensor("self");
  const int64_t dim = c.axis("dim", rank_of(v));
  const int64_t n = c.i("n");
  if (rank_of(v) == 0 || n < 0 || n > 64) {
    c.invalid(cat("n ", n, ", rank ", rank_of(v)));
    return {};
  }
  std::vector<Value*> parts = {c.maybe_tensor("prepend"), v, c.maybe_tensor("append")};
  std::erase(parts, nullptr);
  if (parts.size() > 1) v = c.op(ops::kConcat, parts, {{"dim", dim}});
  for (int64_t i = 0; i < n && c.ok(); ++i) {
    const Dim size = v->dim(dim);
    if (size.min() < 1) {
      c.fail(cat("a dimension of size ", size.str()));
      return {};
    }
    Value* later = c.slice(v, dim, 1, size);
    Value* earlier = c.slice(v, dim, 0, size - Dim(1));
    v = dtype_of(v) == DType::kBool ? c.binary(ops::kLogicalXor, later, earlier)
                                    : c.sub(later, earlier);
  }
  return v;
}

Out raise_topk(Call& c) {
  Value* v = c.tensor("self");
  const int64_t dim = c.axis("dim", rank_of(v));
  return c.op_multi(
      ops::kTopk, {v},
      {{"k", c.i("k")}, {"dim", dim}, {"largest", c.b("largest")}, {"sorted", c.b("sorted")}});
}

}  // namespace downhaul::aten

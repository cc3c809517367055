#include "dialects/edge/functions.h"

// Reductions. The kernels read no dimensions as all; the operators name every dimension.
namespace downhaul::edge {
namespace {

/// The dimensions in argument i, non-negative; all of them when it is absent or empty.
Ints reduced(Raising& r, size_t i, int64_t rank) {
  Ints out;
  if (i < r.size() && !r.is_none(i)) {
    if (std::holds_alternative<Dim>(r.call.args[i])) {
      out.push_back(r.integer(i));
    } else {
      out = r.ints(i);
    }
  }
  if (out.empty())
    for (int64_t d = 0; d < rank; ++d) out.push_back(d);
  if (rank == 0) return {};
  for (int64_t& d : out)
    if (d < 0) d += rank;
  return out;
}

Values raise_reduction(Raising& r, const OpDef& op, bool to_out) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  if (to_out) self = r.cast(self, r.out().dtype);
  const Ints axes = reduced(r, 1, self->rank());
  const bool keepdim = r.flag(2);
  if (!r.ok()) return {};
  return {r.b.op(op, {self}, {{"dims", axes}, {"keepdim", keepdim}})};
}

Result<KernelCall> emit_reduction(const Node& node, const char* kernel, bool takes_dtype) {
  if (node.ints("dims").empty() && node.operand(0)->rank() > 0)
    return no_kernel(node, "reduces no dimension");
  std::vector<Arg> args = {tensor(node.operand(0)), ints(node.ints("dims")),
                           flag(node.b("keepdim"))};
  if (takes_dtype) args.push_back(none());
  return call_of(node, kernel, std::move(args));
}

/// Reduction of the flattened tensor, its result reshaped to the output's rank.
Values raise_arg(Raising& r, const OpDef& op) {
  Value* self = r.tensor(0);
  const bool keepdim = r.flag(2);
  if (!r.ok()) return {};
  if (!r.is_none(1) && self->rank() > 0) {
    const int64_t dim = r.axis(1, self->rank());
    return {r.b.op(op, {self}, {{"dim", dim}, {"keepdim", keepdim}})};
  }
  Value* flat = r.b.op(ops::kReshape, {self}, {{"shape", Dims{num_elements(self->shape())}}});
  Value* result = r.b.op(op, {flat}, {{"dim", int64_t{0}}, {"keepdim", false}});
  if (keepdim && r.ok())
    result = r.b.op(ops::kReshape, {result},
                    {{"shape", Dims(static_cast<size_t>(self->rank()), Dim(1))}});
  return {result};
}

Values raise_extreme(Raising& r, const OpDef& value_op, const OpDef& index_op) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const int64_t dim = r.axis(1, self->rank());
  const bool keepdim = r.flag(2);
  if (!r.ok()) return {};
  if (self->rank() == 0) {
    r.refuse("a tensor of rank 0");
    return {};
  }
  return {r.b.op(value_op, {self}, {{"dims", Ints{dim}}, {"keepdim", keepdim}}),
          r.b.op(index_op, {self}, {{"dim", dim}, {"keepdim", keepdim}})};
}

Values raise_over_all(Raising& r, const OpDef& op, bool to_out) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  if (to_out) self = r.cast(self, r.out().dtype);
  return {r.b.op(op, {self}, {{"dims", reduced(r, r.size(), self->rank())}, {"keepdim", false}})};
}

}  // namespace

Result<KernelCall> emit_sum(const Node& node) {
  return emit_reduction(node, "aten::sum.IntList_out", true);
}
Values raise_sum(Raising& r) { return raise_reduction(r, ops::kSum, true); }

Result<KernelCall> emit_mean(const Node& node) {
  return emit_reduction(node, "aten::mean.out", true);
}
Values raise_mean(Raising& r) { return raise_reduction(r, ops::kMean, true); }

Result<KernelCall> emit_amax(const Node& node) {
  return emit_reduction(node, "aten::amax.out", false);
}
Values raise_amax(Raising& r) { return raise_reduction(r, ops::kAmax, false); }

Result<KernelCall> emit_amin(const Node& node) {
  return emit_reduction(node, "aten::amin.out", false);
}
Values raise_amin(Raising& r) { return raise_reduction(r, ops::kAmin, false); }

Result<KernelCall> emit_any(const Node& node) {
  return emit_reduction(node, "aten::any.dims_out", false);
}
Values raise_any(Raising& r) { return raise_reduction(r, ops::kAny, false); }
Values raise_any_all(Raising& r) { return raise_over_all(r, ops::kAny, false); }

// --- prod: the kernel takes one dimension

Result<KernelCall> emit_prod(const Node& node) {
  if (node.ints("dims").size() != 1) return no_kernel(node, "the kernel takes one dimension");
  return call_of(
      node, "aten::prod.int_out",
      {tensor(node.operand(0)), integer(node.ints("dims")[0]), flag(node.b("keepdim")), none()});
}
Values raise_prod(Raising& r) { return raise_reduction(r, ops::kProd, true); }
Values raise_prod_all(Raising& r) { return raise_over_all(r, ops::kProd, true); }

// --- var

Result<KernelCall> emit_var(const Node& node) {
  if (node.ints("dims").empty()) return no_kernel(node, "reduces no dimension");
  return call_of(node, "aten::var.correction_out",
                 {tensor(node.operand(0)), ints(node.ints("dims")), integer(node.i("correction")),
                  flag(node.b("keepdim"))});
}

Values raise_var(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const Ints axes = reduced(r, 1, self->rank());
  const double correction = r.is_none(2) ? 1 : r.number(2);
  const bool keepdim = r.flag(3);
  if (correction != static_cast<double>(static_cast<int64_t>(correction)))
    r.refuse("correction is no integer");
  if (!r.ok()) return {};
  return {r.b.op(
      ops::kVar, {self},
      {{"dims", axes}, {"correction", static_cast<int64_t>(correction)}, {"keepdim", keepdim}})};
}

Values raise_var_unbiased(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const Ints axes = reduced(r, 1, self->rank());
  const int64_t correction = r.flag(2) ? 1 : 0;
  const bool keepdim = r.flag(3);
  if (!r.ok()) return {};
  return {r.b.op(ops::kVar, {self},
                 {{"dims", axes}, {"correction", correction}, {"keepdim", keepdim}})};
}

// --- the index, or the value and its index

Values raise_argmax(Raising& r) { return raise_arg(r, ops::kArgmax); }
Values raise_argmin(Raising& r) { return raise_arg(r, ops::kArgmin); }
Values raise_max_dim(Raising& r) { return raise_extreme(r, ops::kAmax, ops::kArgmax); }
Values raise_min_dim(Raising& r) { return raise_extreme(r, ops::kAmin, ops::kArgmin); }
Values raise_max(Raising& r) { return raise_over_all(r, ops::kAmax, true); }
Values raise_min(Raising& r) { return raise_over_all(r, ops::kAmin, true); }

}  // namespace downhaul::edge

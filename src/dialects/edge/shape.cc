#include <algorithm>

#include "base/strings.h"
#include "dialects/edge/functions.h"

// Kernels that move elements. The operators take normalised arguments: no -1, no negative axis,
// 0 <= start <= end <= size; the kernels take all of these.
namespace downhaul::edge {
namespace {

Value* reshape(Raising& r, Value* self, Dims shape) {
  if (!r.ok()) return nullptr;
  return r.b.op(ops::kReshape, {self}, {{"shape", std::move(shape)}});
}

Value* slice(Raising& r, Value* self, int64_t dim, Dim start, Dim end, int64_t step = 1) {
  if (!r.ok()) return nullptr;
  if (step == 1 && start == Dim(0) && end == self->dim(dim)) return self;
  return r.b.op(ops::kSlice, {self},
                {{"dim", dim}, {"start", start}, {"end", end}, {"step", step}});
}

Shape without(const Shape& shape, int64_t dim) {
  Shape out = shape;
  out.erase(out.begin() + dim);
  return out;
}

/// A slice bound as torch reads it: negative counts from the end, then clamped to [0, size].
Dim normal_bound(const Dim& bound, const Dim& size) {
  Dim b = bound;
  if (b.is_static() && b.value() < 0) b = size + b;
  if (b == size || (b.is_static() && b.value() >= size.max())) return size;
  if (b.is_static() && size.is_static()) return std::clamp<int64_t>(b.value(), 0, size.value());
  if ((size - b).min() < 0) b = min(b, size);
  if (b.min() < 0) b = max(b, 0);
  return b;
}

struct Range {
  Dim start;
  Dim end;
};
Range normal_range(Raising& r, size_t start_arg, size_t end_arg, const Dim& size) {
  Range range{0, size};
  if (!r.is_none(start_arg)) range.start = normal_bound(r.dim(start_arg), size);
  if (!r.is_none(end_arg)) range.end = normal_bound(r.dim(end_arg), size);
  if (range.start.is_static() && range.end.is_static() && range.end.value() < range.start.value())
    range.end = range.start;
  return range;
}

}  // namespace

Values raise_reshape(Raising& r) {
  Value* self = r.tensor(0);
  Dims shape = r.dims(1);
  if (!r.ok()) return {};
  Dim known = 1;
  Dim* inferred = nullptr;
  for (Dim& d : shape) {
    if (d == Dim(-1)) {
      inferred = &d;
    } else {
      known = known * d;
    }
  }
  if (inferred != nullptr) {
    const std::optional<Dim> quotient = num_elements(self->shape()).divided_by(known);
    if (!quotient.has_value()) {
      r.refuse(cat("cannot infer a size of ", str(shape), " from ", self->type().str()));
      return {};
    }
    *inferred = *quotient;
  }
  if (shape == self->shape()) return {self};
  return {reshape(r, self, std::move(shape))};
}

Values raise_unsqueeze(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const int64_t dim = r.axis(1, self->rank() + 1);
  Shape shape = self->shape();
  shape.insert(shape.begin() + dim, 1);
  return {reshape(r, self, std::move(shape))};
}

Values raise_squeeze(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok() || r.size() < 2) return {};
  std::vector<bool> drop(static_cast<size_t>(self->rank()));
  const Ints axes = std::holds_alternative<Dim>(r.call.args[1]) ? Ints{r.integer(1)} : r.ints(1);
  for (int64_t a : axes) {
    if (a < 0) a += self->rank();
    if (a < 0 || a >= self->rank()) {
      r.refuse("axis out of range");
      return {};
    }
    drop[static_cast<size_t>(a)] = self->dim(a) == Dim(1);
  }
  Shape shape;
  for (size_t i = 0; i < drop.size(); ++i)
    if (!drop[i]) shape.push_back(self->shape()[i]);
  return {reshape(r, self, std::move(shape))};
}

Values raise_permute(Raising& r) {
  Value* self = r.tensor(0);
  Ints perm = r.ints(1);
  if (!r.ok()) return {};
  for (int64_t& d : perm)
    if (d < 0) d += self->rank();
  return {r.b.op(ops::kPermute, {self}, {{"dims", std::move(perm)}})};
}

Values raise_transpose(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const int64_t a = r.axis(1, self->rank()), b = r.axis(2, self->rank());
  Ints perm;
  for (int64_t d = 0; d < self->rank(); ++d) perm.push_back(d == a ? b : d == b ? a : d);
  if (!r.ok()) return {};
  return {r.b.op(ops::kPermute, {self}, {{"dims", std::move(perm)}})};
}

Values raise_t(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  if (self->rank() < 2) return {self};
  return {r.b.op(ops::kPermute, {self}, {{"dims", Ints{1, 0}}})};
}

Values raise_expand(Raising& r) {
  Value* self = r.tensor(0);
  Dims size = r.dims(1);
  if (!r.ok()) return {};
  if (size.size() < self->shape().size()) {
    r.refuse("fewer sizes than dimensions");
    return {};
  }
  const size_t lead = size.size() - self->shape().size();
  for (size_t i = lead; i < size.size(); ++i)
    if (size[i] == Dim(-1)) size[i] = self->shape()[i - lead];
  return {r.b.op(ops::kExpand, {self}, {{"size", std::move(size)}})};
}

Values raise_slice(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const int64_t dim = r.axis(1, self->rank());
  const int64_t step = r.integer(4);
  if (!r.ok()) return {};
  const Range range = normal_range(r, 2, 3, self->dim(dim));
  return {slice(r, self, dim, range.start, range.end, step)};
}

Values raise_select(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const int64_t dim = r.axis(1, self->rank());
  Dim index = r.dim(2);
  if (!r.ok()) return {};
  if (index.is_static() && index.value() < 0) index = self->dim(dim) + index;
  Value* row = slice(r, self, dim, index, index + 1);
  return {reshape(r, row, without(self->shape(), dim))};
}

Values raise_narrow(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const int64_t dim = r.axis(1, self->rank());
  Dim start = r.dim(2);
  const Dim length = r.dim(3);
  if (!r.ok()) return {};
  if (start.is_static() && start.value() < 0) start = self->dim(dim) + start;
  return {slice(r, self, dim, start, start + length)};
}

Values raise_split_sizes(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const Dims sizes = r.dims(1);
  const int64_t dim = r.axis(2, self->rank());
  Values out;
  Dim at = 0;
  for (const Dim& size : sizes) {
    out.push_back(slice(r, self, dim, at, at + size));
    at = at + size;
  }
  return out;
}

Values raise_split(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const Dim size = r.dim(1);
  const int64_t dim = r.axis(2, self->rank());
  if (!r.ok()) return {};
  Values out;
  Dim at = 0;
  for (size_t i = 0; i < r.call.outs.size(); ++i) {
    const bool last = i + 1 == r.call.outs.size();
    const Dim end = last ? self->dim(dim) : at + size;
    out.push_back(slice(r, self, dim, at, end));
    at = end;
  }
  return out;
}

Values raise_unbind(Raising& r) {
  Value* self = r.tensor(0);
  if (!r.ok()) return {};
  const int64_t dim = r.axis(1, self->rank());
  Values out;
  for (size_t i = 0; i < r.call.outs.size(); ++i) {
    Value* row = slice(r, self, dim, static_cast<int64_t>(i), static_cast<int64_t>(i) + 1);
    if (!r.ok()) return {};
    out.push_back(reshape(r, row, without(self->shape(), dim)));
  }
  return out;
}

Values raise_cat(Raising& r) {
  std::vector<Value*> members = r.tensors(0);
  if (!r.ok()) return {};
  for (Value*& v : members) v = r.cast(v, r.out().dtype);
  const int64_t dim = r.axis(1, r.out().rank());
  // An empty tensor of rank 1 joins anything.
  std::erase_if(members, [&](const Value* v) {
    return v != nullptr && v->rank() == 1 && v->dim(0) == Dim(0) && r.out().rank() != 1;
  });
  if (!r.ok()) return {};
  return {r.b.op(ops::kConcat, std::move(members), {{"dim", dim}})};
}

Values raise_stack(Raising& r) {
  std::vector<Value*> members = r.tensors(0);
  const int64_t dim = r.axis(1, r.out().rank());
  if (!r.ok()) return {};
  for (Value*& v : members) {
    Shape shape = v->shape();
    if (dim > static_cast<int64_t>(shape.size())) {
      r.refuse("axis out of range");
      return {};
    }
    shape.insert(shape.begin() + dim, 1);
    v = reshape(r, r.cast(v, r.out().dtype), std::move(shape));
  }
  return {r.b.op(ops::kConcat, std::move(members), {{"dim", dim}})};
}

// --- pad: the kernels take pairs for the last dimension first, and only as many as needed

Result<KernelCall> emit_pad(const Node& node) {
  const Ints& before = node.ints("before");
  const Ints& after = node.ints("after");
  const std::string& mode = node.s("mode");
  size_t first = 0;
  while (first < before.size() && before[first] == 0 && after[first] == 0) ++first;
  size_t count = before.size() - first;
  Ints pairs;
  if (mode == "constant") {
    for (size_t i = 0; i < before.size(); ++i)
      if (before[i] < 0 || after[i] < 0) return no_kernel(node, "the kernel does not crop");
    for (size_t i = before.size(); i-- > first;) {
      pairs.push_back(before[i]);
      pairs.push_back(after[i]);
    }
    return call_of(
        node, "aten::constant_pad_nd.out",
        {tensor(node.operand(0)), ints(pairs), scalar(node.f("value"), node.result()->dtype())});
  }
  // reflection_padNd wants N or N + 1 dimensions besides the padded ones.
  const size_t rank = before.size();
  if (count == 0) count = 1;
  while (count < 3 && rank > count + 2) ++count;
  if (count > 3 || rank < count + 1 || rank > count + 2)
    return no_kernel(node, cat(mode, " of ", count, " dimensions of a tensor of rank ", rank));
  for (size_t i = rank; i-- > rank - count;) {
    pairs.push_back(before[i]);
    pairs.push_back(after[i]);
  }
  if (node.result()->dtype() == DType::kBool) return no_kernel(node, "no kernel for bool");
  const std::string kernel =
      cat("aten::", mode == "reflect" ? "reflection" : "replication", "_pad", count, "d.out");
  return call_of(node, kernel, {tensor(node.operand(0)), ints(pairs)});
}

namespace {

Values raise_pad(Raising& r, const char* mode, double value) {
  Value* self = r.tensor(0);
  const Ints pairs = r.ints(1);
  if (!r.ok()) return {};
  const auto rank = static_cast<size_t>(self->rank());
  if (pairs.size() % 2 != 0 || pairs.size() / 2 > rank) {
    r.refuse("odd number of paddings");
    return {};
  }
  Ints before(rank), after(rank);
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    before[rank - 1 - i] = pairs[2 * i];
    after[rank - 1 - i] = pairs[2 * i + 1];
  }
  return {r.b.op(ops::kPad, {self},
                 {{"before", std::move(before)},
                  {"after", std::move(after)},
                  {"value", value},
                  {"mode", std::string(mode)}})};
}

}  // namespace

Values raise_constant_pad(Raising& r) { return raise_pad(r, "constant", r.number(2)); }
Values raise_reflection_pad(Raising& r) { return raise_pad(r, "reflect", 0); }
Values raise_replication_pad(Raising& r) { return raise_pad(r, "replicate", 0); }

Values raise_flip(Raising& r) {
  Value* self = r.tensor(0);
  Ints axes = r.ints(1);
  if (!r.ok()) return {};
  for (int64_t& a : axes)
    if (a < 0) a += self->rank();
  return {r.b.op(ops::kFlip, {self}, {{"dims", std::move(axes)}})};
}

Values raise_roll(Raising& r) {
  Value* self = r.tensor(0);
  const Ints shifts = r.ints(1);
  Ints axes = r.ints(2);
  if (!r.ok()) return {};
  if (axes.empty() && shifts.size() == 1) {
    // Without axes the flattened tensor is rolled.
    const Shape shape = self->shape();
    Value* flat = reshape(r, self, {num_elements(shape)});
    Value* rolled = r.b.op(ops::kRoll, {flat}, {{"shifts", shifts}, {"dims", Ints{0}}});
    return {reshape(r, rolled, shape)};
  }
  for (int64_t& a : axes)
    if (a < 0) a += self->rank();
  return {r.b.op(ops::kRoll, {self}, {{"shifts", shifts}, {"dims", std::move(axes)}})};
}

Values raise_slice_scatter(Raising& r) {
  Value* self = r.tensor(0);
  Value* src = r.tensor(1);
  if (!r.ok()) return {};
  const int64_t dim = r.axis(2, self->rank());
  const int64_t step = r.integer(5);
  if (!r.ok()) return {};
  const Range range = normal_range(r, 3, 4, self->dim(dim));
  return {r.b.op(ops::kSliceScatter, {self, r.cast(src, self->dtype())},
                 {{"dim", dim}, {"start", range.start}, {"end", range.end}, {"step", step}})};
}

}  // namespace downhaul::edge

// Reading and writing at computed places.
#include <numeric>

#include "base/strings.h"
#include "dialects/aten/raise.h"
#include "dialects/aten/shapes.h"

namespace downhaul::aten {
namespace {

bool is_mask(const Value* v) {
  return v != nullptr && (v->dtype() == DType::kBool || v->dtype() == DType::kU8);
}

// A constant mask as one index tensor for each of its dimensions.
std::vector<Value*> places_of(Call& c, const Tensor& mask) {
  std::vector<std::vector<int64_t>> places(static_cast<size_t>(mask.rank()));
  for (int64_t i = 0; i < mask.num_elements(); ++i) {
    if (mask.int_at(i) == 0) continue;
    int64_t rest = i;
    for (int64_t d = mask.rank(); d-- > 0;) {
      places[static_cast<size_t>(d)].push_back(rest % mask.size(d));
      rest /= mask.size(d);
    }
  }
  std::vector<Value*> result;
  for (const std::vector<int64_t>& p : places) {
    result.push_back(c.constant(Tensor::from<int64_t>({static_cast<int64_t>(p.size())}, p)));
  }
  return result;
}

// The argument `indices` with masks made into places; null members keep a dimension.
std::vector<Value*> integer_indices(Call& c) {
  std::vector<Value*> result;
  for (Value* index : c.tensors("indices")) {
    if (!is_mask(index)) {
      result.push_back(index);
      continue;
    }
    const std::optional<Tensor> mask = c.fold(index);
    if (!mask) {
      c.fail(cat("a selection by the mask '", index->name(),
                 "', whose number of true elements is known only at run time"));
      return {};
    }
    for (Value* place : places_of(c, *mask)) result.push_back(place);
  }
  while (!result.empty() && result.back() == nullptr) result.pop_back();
  return result;
}

Value* unsqueezed(Call& c, Value* v, int64_t dim) {
  Dims shape = dims_of(v);
  if (dim > static_cast<int64_t>(shape.size())) return v;
  shape.insert(shape.begin() + dim, Dim(1));
  return c.reshape(v, std::move(shape));
}

// Index tensors that address, for every element of `index`, its own coordinates, but the element's
// value along `dim`. All have the shape of `index` after broadcasting.
std::vector<Value*> coordinates(Call& c, Value* index, int64_t dim) {
  const Shape shape = dims_of(index);
  std::vector<Value*> result;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int64_t>(d) == dim) {
      result.push_back(index);
      continue;
    }
    Value* line = c.op(ops::kArange, {}, {{"start", Dim(0)}, {"end", shape[d]}});
    Dims one(shape.size(), Dim(1));
    one[d] = shape[d];
    result.push_back(c.reshape(line, std::move(one)));
  }
  return result;
}

Value* put(Call& c, Value* self, Value* values, std::vector<Value*> indices, bool accumulate) {
  std::vector<Value*> operands = {self, values};
  operands.insert(operands.end(), indices.begin(), indices.end());
  return c.op(ops::kIndexPut, std::move(operands), {{"accumulate", accumulate}});
}

Out scattered(Call& c, Value* src, bool accumulate) {
  Value* self = c.tensor("self");
  Value* index = c.tensor("index");
  const int64_t dim = c.axis("dim", rank_of(self));
  if (!c.ok()) return {};
  if (self->rank() == 0 || index->rank() != self->rank()) {
    c.fail(cat("an index of rank ", index->rank(), " for a tensor of rank ", self->rank()));
    return {};
  }
  // Only the part of src that index covers is written.
  if (src->rank() == index->rank()) {
    for (int64_t d = 0; d < src->rank(); ++d) src = c.slice(src, d, 0, index->dim(d));
  }
  return put(c, self, c.cast(src, self->dtype()), coordinates(c, index, dim), accumulate);
}

}  // namespace

Out raise_embedding(Call& c) {
  return c.op(ops::kEmbedding, {c.tensor("weight"), c.tensor("indices")});
}

Out raise_gather(Call& c) {
  Value* self = c.tensor("self");
  Value* index = c.tensor("index");
  return c.op(ops::kGather, {self, index}, {{"dim", c.axis("dim", rank_of(self))}});
}

Out raise_take_along_dim(Call& c) {
  Value* self = c.tensor("self");
  Value* index = c.tensor("indices");
  if (!c.has("dim")) {
    return c.op(ops::kGather,
                {c.reshape(self, {num_elements(dims_of(self))}),
                 c.reshape(index, {num_elements(dims_of(index))})},
                {{"dim", int64_t{0}}});
  }
  const int64_t dim = c.axis("dim", rank_of(self));
  if (!c.ok() || self->rank() == 0 || index->rank() != self->rank()) {
    c.invalid(cat("indices of rank ", rank_of(index), ", expected ", rank_of(self)));
    return {};
  }
  // All dimensions but `dim` broadcast.
  const Dims free = replaced(self->shape(), dim, 1, {Dim(1)});
  const Dims wide = broadcast(c, free, replaced(index->shape(), dim, 1, {Dim(1)}));
  Value* from = c.expand(self, replaced(wide, dim, 1, {self->dim(dim)}));
  return c.op(ops::kGather, {from, c.expand(index, replaced(wide, dim, 1, {index->dim(dim)}))},
              {{"dim", dim}});
}

Out raise_one_hot(Call& c) {
  Value* self = c.tensor("self");
  const int64_t classes = c.i("num_classes");
  if (classes <= 0) {
    c.fail("a number of classes that depends on the values of tensors");
    return {};
  }
  Value* places = c.op(ops::kArange, {}, {{"start", Dim(0)}, {"end", Dim(classes)}});
  Value* column = unsqueezed(c, c.cast(self, DType::kI64), rank_of(self));
  return c.cast(c.binary(ops::kEq, column, places), DType::kI64);
}

Out raise_index_select(Call& c) {
  Value* self = c.tensor("self");
  Value* index = c.tensor("index");
  if (index != nullptr && index->rank() == 0) index = c.reshape(index, {1});
  return c.op(ops::kIndexSelect, {self, index}, {{"dim", c.axis("dim", rank_of(self))}});
}

Out raise_index(Call& c) {
  Value* self = c.tensor("self");
  std::vector<Value*> operands = integer_indices(c);
  if (operands.empty()) return self;
  operands.insert(operands.begin(), self);
  return c.op(ops::kIndex, std::move(operands));
}

Out raise_index_put(Call& c) {
  Value* self = c.tensor("self");
  Value* values = c.cast(c.tensor("values"), dtype_of(self));
  const bool accumulate = c.b("accumulate");
  const std::vector<Value*> given = c.tensors("indices");
  if (!c.ok()) return {};
  // One number into the places of a mask is a selection, whatever the mask.
  if (given.size() == 1 && is_mask(given[0]) && num_elements(values->shape()) == Dim(1)) {
    Value* mask = c.cast(given[0], DType::kBool);
    Dims shape = dims_of(mask);
    shape.resize(static_cast<size_t>(self->rank()), Dim(1));
    Value* value = c.reshape(values, {});
    if (accumulate) value = c.add(self, value);
    return c.op(ops::kWhere, {c.reshape(mask, std::move(shape)), value, self});
  }
  std::vector<Value*> indices = integer_indices(c);
  if (indices.empty()) return c.expand(values, dims_of(self));
  return put(c, self, values, std::move(indices), accumulate);
}

Out raise_index_copy(Call& c) {
  Value* self = c.tensor("self");
  Value* source = c.tensor("source");
  const int64_t dim = c.axis("dim", rank_of(self));
  std::vector<Value*> indices(static_cast<size_t>(dim), nullptr);
  indices.push_back(c.tensor("index"));
  return put(c, self, source, std::move(indices), false);
}

Out raise_nonzero(Call& c) {
  Value* self = c.tensor("self");
  if (!c.ok()) return {};
  const std::optional<Tensor> content = c.fold(self);
  if (!content) {
    c.fail(cat("the places of '", self->name(),
               "' that are not zero, whose number is known only at run time"));
    return {};
  }
  std::vector<int64_t> places;
  int64_t count = 0;
  for (int64_t i = 0; i < content->num_elements(); ++i) {
    if (content->at(i) == 0) continue;
    ++count;
    const size_t begin = places.size();
    places.resize(begin + static_cast<size_t>(content->rank()));
    int64_t rest = i;
    for (int64_t d = content->rank(); d-- > 0;) {
      places[begin + static_cast<size_t>(d)] = rest % content->size(d);
      rest /= content->size(d);
    }
  }
  return c.constant(Tensor::from<int64_t>({count, content->rank()}, places));
}

Out raise_scatter(Call& c) { return scattered(c, c.tensor("src"), false); }
Out raise_scatter_add(Call& c) { return scattered(c, c.tensor("src"), true); }
Out raise_scatter_value(Call& c) {
  return scattered(c, c.scalar(dtype_of(c.tensor("self")), c.number("value")), false);
}

Out raise_select_scatter(Call& c) {
  Value* self = c.tensor("self");
  const Shape shape = dims_of(self);
  const int64_t dim = c.axis("dim", rank_of(self));
  if (shape.empty()) c.invalid("a tensor of rank 0");
  if (!c.ok()) return {};
  const Dim index = wrap_index(c, c.dim("index"), shape[static_cast<size_t>(dim)]);
  Value* src = unsqueezed(c, c.cast(c.tensor("src"), dtype_of(self)), dim);
  return c.op(ops::kSliceScatter, {self, src},
              {{"dim", dim}, {"start", index}, {"end", index + Dim(1)}});
}

Out raise_slice_scatter(Call& c) {
  Value* self = c.tensor("self");
  const Shape shape = dims_of(self);
  const int64_t dim = c.axis("dim", rank_of(self));
  const int64_t step = c.i("step");
  if (shape.empty()) c.invalid("a tensor of rank 0");
  if (step <= 0) c.invalid(cat("step ", step));
  if (!c.ok()) return {};
  const Range range =
      clamp_range(shape[static_cast<size_t>(dim)], c.maybe_dim("start"), c.maybe_dim("end"));
  Value* src = c.cast(c.tensor("src"), dtype_of(self));
  return c.op(ops::kSliceScatter, {self, src},
              {{"dim", dim}, {"start", range.start}, {"end", range.end}, {"step", step}});
}

}  // namespace downhaul::aten

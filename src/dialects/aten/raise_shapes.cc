// Shape changes. Views keep the alias to their operand, so that writes reach it.
#include <algorithm>
#include <numeric>

#include "base/strings.h"
#include "dialects/aten/raise.h"
#include "dialects/aten/shapes.h"

namespace downhaul::aten {
namespace {

Shape shape_of_view(const View* v) { return v == nullptr ? Shape{} : v->type.shape; }
int64_t rank_of_view(const View* v) { return static_cast<int64_t>(shape_of_view(v).size()); }

// A view where torch makes one, a copy where it has to.
Out reshaped(Call& c, View* self, Dims shape) {
  if (!c.ok()) return {};
  const pt2::TensorMeta* meta = c.meta("self");
  const pt2::TensorMeta* result = c.result_meta();
  std::optional<std::vector<int64_t>> example;
  if (result != nullptr) {
    example.emplace();
    for (const pt2::Dim& d : result->sizes) {
      if (!d.value) {
        example.reset();
        break;
      }
      example->push_back(*d.value);
    }
  }
  if (meta == nullptr || can_view(*meta, shape, example)) {
    return c.reshape_view(self, std::move(shape));
  }
  return c.reshape(c.read(self), std::move(shape));
}

Ints reversed_dims(int64_t rank) {
  Ints dims(static_cast<size_t>(rank));
  std::iota(dims.rbegin(), dims.rend(), 0);
  return dims;
}

Out swapped(Call& c, const char* first, const char* second) {
  View* self = c.view("self");
  const int64_t rank = rank_of_view(self);
  const int64_t a = c.axis(first, rank);
  const int64_t b = c.axis(second, rank);
  if (rank == 0) return self;
  Ints dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[static_cast<size_t>(a)], dims[static_cast<size_t>(b)]);
  return c.permute_view(self, std::move(dims));
}

// The named dimensions go to their places, the others fill the rest in order.
Out moved(Call& c, const Ints& source, const Ints& destination) {
  View* self = c.view("self");
  const int64_t rank = rank_of_view(self);
  if (source.size() != destination.size()) c.invalid("as many sources as destinations");
  if (rank == 0 || !c.ok()) return self;
  Ints dims(static_cast<size_t>(rank), -1);
  std::vector<bool> placed(static_cast<size_t>(rank), false);
  for (size_t i = 0; i < source.size(); ++i) {
    const int64_t from = c.wrap_axis(source[i], rank);
    int64_t& to = dims[static_cast<size_t>(c.wrap_axis(destination[i], rank))];
    if (to >= 0 || placed[static_cast<size_t>(from)]) {
      c.invalid("a dimension named twice");
      return {};
    }
    to = from;
    placed[static_cast<size_t>(from)] = true;
  }
  int64_t next = 0;
  for (int64_t& d : dims) {
    if (d >= 0) continue;
    while (placed[static_cast<size_t>(next)]) ++next;
    d = next++;
  }
  return c.permute_view(self, std::move(dims));
}

// One slice after the other along `dim`, of these sizes.
Out sliced(Call& c, View* self, int64_t dim, const Dims& sizes) {
  std::vector<View*> views;
  Dim start = 0;
  for (const Dim& size : sizes) {
    views.push_back(c.slice_view(self, dim, start, start + size));
    start = start + size;
  }
  return views;
}

// Pieces come one per result, so the file must list each of them.
constexpr int64_t kMaxPieces = int64_t{1} << 20;

Out split_evenly(Call& c, View* self, int64_t dim, const Dim& piece) {
  if (!c.ok()) return {};
  const Dim size = shape_of_view(self)[static_cast<size_t>(dim)];
  Dims sizes;
  if (size.is_static() && piece.is_static()) {
    if (piece.value() < 0 || (piece.value() == 0 && size.value() != 0) ||
        (piece.value() > 0 && size.value() / piece.value() > kMaxPieces)) {
      c.invalid(cat("pieces of size ", piece.str(), " of a dimension of size ", size.str()));
      return {};
    }
    int64_t rest = size.value();
    do {
      sizes.emplace_back(std::min(rest, piece.value()));
      rest -= piece.value();
    } while (rest > 0);
  } else {
    const std::optional<Dim> count = size.divided_by(piece);
    if (!count || !count->is_static() || count->value() > kMaxPieces) {
      c.fail(
          cat("a dynamic number of pieces (size ", size.str(), " in pieces of ", piece.str(), ")"));
      return {};
    }
    sizes.assign(static_cast<size_t>(count->value()), piece);
  }
  return sliced(c, self, dim, sizes);
}

Out split_by(Call& c, const char* sizes_name) {
  View* self = c.view("self");
  const int64_t rank = rank_of_view(self);
  const int64_t dim = c.axis("dim", rank);
  const Dims sizes = c.dims(sizes_name);
  if (rank == 0) c.invalid("a tensor of rank 0");
  if (!c.ok()) return {};
  Dim sum = 0;
  for (const Dim& s : sizes) sum = sum + s;
  const Dim size = shape_of_view(self)[static_cast<size_t>(dim)];
  if (sum.is_static() && size.is_static() && !(sum == size)) {
    c.invalid(cat("pieces of ", sum.str(), " together, expected ", size.str()));
    return {};
  }
  return sliced(c, self, dim, sizes);
}

Out expanded(Call& c, View* self, Dims size) {
  const Shape from = shape_of_view(self);
  if (size.size() < from.size()) {
    c.invalid(cat("rank ", from.size(), " does not expand to rank ", size.size()));
    return {};
  }
  const size_t added = size.size() - from.size();
  for (size_t d = 0; d < size.size(); ++d) {
    if (!(size[d] == Dim(-1))) continue;
    if (d < added) {
      c.invalid("a size of -1 for a new dimension");
      return {};
    }
    size[d] = from[d - added];
  }
  return c.derive(self, c.expand(c.read(self), std::move(size)));
}

Out squeezed(Call& c, View* self, const std::vector<bool>& candidates) {
  const Shape shape = shape_of_view(self);
  Dims rest;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!(candidates[d] && shape[d] == Dim(1))) rest.push_back(shape[d]);
  }
  return c.reshape_view(self, std::move(rest));
}

}  // namespace

Out raise_view(Call& c) {
  View* self = c.view("self");
  return c.reshape_view(self, resolve_shape(c, num_elements(shape_of_view(self)), c.dims("size")));
}

// A layout of the storage by hand. What exporters write is the tensor's own memory in plain order.
Out raise_as_strided(Call& c) {
  View* self = c.view("self");
  const Ints sizes = c.ints("size");
  const Ints strides = c.ints("stride");
  if (!c.ok()) return {};
  const pt2::TensorMeta* meta = c.meta("self");
  const bool plain = sizes.size() == strides.size() && !c.has("storage_offset") &&
                     meta != nullptr && is_contiguous(*meta) && is_contiguous(sizes, strides) &&
                     checked_num_elements(sizes) == num_elements(self->type.shape).maybe_value();
  if (!plain) {
    c.fail("a layout that is not the tensor's own memory in row-major order");
    return {};
  }
  return c.reshape_view(self, Dims(sizes.begin(), sizes.end()));
}

Out raise_unsafe_view(Call& c) {
  Value* self = c.tensor("self");
  return c.reshape(self, resolve_shape(c, num_elements(dims_of(self)), c.dims("size")));
}

Out raise_reshape(Call& c) {
  View* self = c.view("self");
  return reshaped(c, self, resolve_shape(c, num_elements(shape_of_view(self)), c.dims("shape")));
}

Out raise_reshape_as(Call& c) {
  View* self = c.view("self");
  return reshaped(c, self, dims_of(c.tensor("other")));
}

Out raise_flatten(Call& c) {
  View* self = c.view("self");
  const Shape shape = shape_of_view(self);
  const int64_t rank = rank_of_view(self);
  const int64_t first = c.axis("start_dim", rank);
  const int64_t last = c.axis("end_dim", rank);
  if (first > last) c.invalid("start_dim lies behind end_dim");
  if (!c.ok()) return {};
  if (rank == 0) return c.reshape_view(self, {1});
  Dim product = 1;
  for (int64_t d = first; d <= last; ++d) product = product * shape[static_cast<size_t>(d)];
  return reshaped(c, self, replaced(shape, first, last - first + 1, {product}));
}

Out raise_unflatten(Call& c) {
  View* self = c.view("self");
  const Shape shape = shape_of_view(self);
  const int64_t dim = c.axis("dim", rank_of_view(self));
  if (shape.empty()) c.invalid("a tensor of rank 0");
  if (!c.ok()) return {};
  const Dims sizes = resolve_shape(c, shape[static_cast<size_t>(dim)], c.dims("sizes"));
  return c.reshape_view(self, replaced(shape, dim, 1, sizes));
}

Out raise_unsqueeze(Call& c) {
  View* self = c.view("self");
  Dims shape = shape_of_view(self);
  const int64_t dim = c.axis("dim", static_cast<int64_t>(shape.size()) + 1);
  shape.insert(shape.begin() + dim, Dim(1));
  return c.reshape_view(self, std::move(shape));
}

Out raise_squeeze_all(Call& c) {
  View* self = c.view("self");
  return squeezed(c, self, std::vector<bool>(shape_of_view(self).size(), true));
}

Out raise_squeeze(Call& c) {
  View* self = c.view("self");
  const int64_t rank = rank_of_view(self);
  std::vector<bool> candidates(static_cast<size_t>(std::max<int64_t>(rank, 1)));
  for (const int64_t d : c.ints("dim")) {
    candidates[static_cast<size_t>(c.wrap_axis(d, rank))] = true;
  }
  return squeezed(c, self, candidates);
}

Out raise_permute(Call& c) {
  View* self = c.view("self");
  const int64_t rank = rank_of_view(self);
  Ints dims = c.ints("dims");
  if (static_cast<int64_t>(dims.size()) != rank) {
    c.invalid(cat("dims has ", dims.size(), " entries, expected ", rank));
    return {};
  }
  for (int64_t& d : dims) d = c.wrap_axis(d, rank);
  return c.permute_view(self, std::move(dims));
}

Out raise_transpose(Call& c) { return swapped(c, "dim0", "dim1"); }
Out raise_swapaxes(Call& c) { return swapped(c, "axis0", "axis1"); }

Out raise_reversed(Call& c) {
  View* self = c.view("self");
  return c.permute_view(self, reversed_dims(rank_of_view(self)));
}

Out raise_matrix_transpose(Call& c) {
  View* self = c.view("self");
  const int64_t rank = rank_of_view(self);
  if (rank < 2) {
    c.invalid(cat("a tensor of rank ", rank));
    return {};
  }
  Ints dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[dims.size() - 2], dims[dims.size() - 1]);
  return c.permute_view(self, std::move(dims));
}

Out raise_movedim(Call& c) { return moved(c, {c.i("source")}, {c.i("destination")}); }
Out raise_movedims(Call& c) { return moved(c, c.ints("source"), c.ints("destination")); }

Out raise_expand(Call& c) {
  View* self = c.view("self");
  return expanded(c, self, c.dims("size"));
}

Out raise_expand_as(Call& c) {
  View* self = c.view("self");
  return expanded(c, self, dims_of(c.tensor("other")));
}

Out raise_select(Call& c) {
  View* self = c.view("self");
  const Shape shape = shape_of_view(self);
  const int64_t dim = c.axis("dim", rank_of_view(self));
  if (shape.empty()) c.invalid("a tensor of rank 0");
  if (!c.ok()) return {};
  const Dim index = wrap_index(c, c.dim("index"), shape[static_cast<size_t>(dim)]);
  View* row = c.slice_view(self, dim, index, index + Dim(1));
  return c.reshape_view(row, replaced(shape, dim, 1, {}));
}

Out raise_slice(Call& c) {
  View* self = c.view("self");
  const Shape shape = shape_of_view(self);
  const int64_t dim = c.axis("dim", rank_of_view(self));
  const int64_t step = c.i("step");
  if (shape.empty()) c.invalid("a tensor of rank 0");
  if (step <= 0) c.invalid(cat("step ", step));
  if (!c.ok()) return {};
  const Range range =
      clamp_range(shape[static_cast<size_t>(dim)], c.maybe_dim("start"), c.maybe_dim("end"));
  return c.slice_view(self, dim, range.start, range.end, step);
}

Out raise_narrow(Call& c) {
  View* self = c.view("self");
  const Shape shape = shape_of_view(self);
  const int64_t dim = c.axis("dim", rank_of_view(self));
  if (shape.empty()) c.invalid("a tensor of rank 0");
  if (!c.ok()) return {};
  Dim start = c.dim("start");
  if (start.max() < 0) start = start + shape[static_cast<size_t>(dim)];
  return c.slice_view(self, dim, start, start + c.dim("length"));
}

Out raise_split(Call& c) {
  View* self = c.view("self");
  const int64_t dim = c.axis("dim", rank_of_view(self));
  if (rank_of_view(self) == 0) c.invalid("a tensor of rank 0");
  return split_evenly(c, self, dim, c.dim("split_size"));
}

Out raise_split_sizes(Call& c) { return split_by(c, "split_size"); }
Out raise_split_with_sizes(Call& c) { return split_by(c, "split_sizes"); }

Out raise_chunk(Call& c) {
  View* self = c.view("self");
  const Shape shape = shape_of_view(self);
  const int64_t dim = c.axis("dim", rank_of_view(self));
  const int64_t chunks = c.i("chunks");
  if (shape.empty()) c.invalid("a tensor of rank 0");
  if (chunks <= 0 || chunks > kMaxPieces) c.invalid(cat("chunks ", chunks));
  if (!c.ok()) return {};
  const Dim size = shape[static_cast<size_t>(dim)];
  if (size == Dim(0)) return sliced(c, self, dim, Dims(static_cast<size_t>(chunks), Dim(0)));
  const std::optional<Dim> whole = size.divided_by(Dim(chunks));
  return split_evenly(c, self, dim,
                      whole ? *whole : floor_div(size + Dim(chunks - 1), Dim(chunks)));
}

Out raise_unbind(Call& c) {
  View* self = c.view("self");
  const Shape shape = shape_of_view(self);
  const int64_t dim = c.axis("dim", rank_of_view(self));
  if (shape.empty()) c.invalid("a tensor of rank 0");
  if (!c.ok()) return {};
  const Dim size = shape[static_cast<size_t>(dim)];
  if (!size.is_static() || size.value() > kMaxPieces) {
    c.fail(cat("a dynamic number of results (size ", size.str(), ")"));
    return {};
  }
  std::vector<View*> views;
  for (int64_t i = 0; i < size.value(); ++i) {
    views.push_back(c.reshape_view(c.slice_view(self, dim, i, i + 1), replaced(shape, dim, 1, {})));
  }
  return views;
}

namespace {

Out concatenated(Call& c, const std::vector<Value*>& tensors, int64_t dim) {
  // torch lets empty tensors of rank 1 take part, whatever the others' shape.
  std::vector<Value*> parts;
  std::vector<Operand> operands;
  for (Value* t : tensors) {
    operands.emplace_back(t);
    if (t != nullptr && t->rank() == 1 && t->dim(0) == Dim(0)) continue;
    parts.push_back(t);
  }
  if (parts.empty() && !tensors.empty()) parts.push_back(tensors[0]);
  if (parts.empty()) {
    c.invalid("no tensors");
    return {};
  }
  const DType dtype = result_type(operands);
  for (Value*& p : parts) p = c.cast(p, dtype);
  dim = c.wrap_axis(dim, rank_of(parts[0]));
  if (parts.size() == 1) return parts[0];
  return c.op(ops::kConcat, parts, {{"dim", dim}});
}

}  // namespace

Out raise_cat(Call& c) { return concatenated(c, c.tensors("tensors"), c.i("dim")); }

Out raise_hstack(Call& c) {
  const std::vector<Value*> tensors = c.tensors("tensors");
  return concatenated(c, tensors, !tensors.empty() && rank_of(tensors[0]) >= 2 ? 1 : 0);
}

// Vectors become rows.
Out raise_vstack(Call& c) {
  std::vector<Value*> tensors = c.tensors("tensors");
  for (Value*& t : tensors) {
    if (rank_of(t) < 2) t = c.reshape(t, {Dim(1), num_elements(dims_of(t))});
  }
  return concatenated(c, tensors, 0);
}

Out raise_stack(Call& c) {
  std::vector<Value*> tensors = c.tensors("tensors");
  if (tensors.empty()) {
    c.invalid("no tensors");
    return {};
  }
  const DType dtype = result_type(std::vector<Operand>(tensors.begin(), tensors.end()));
  Dims shape = dims_of(tensors[0]);
  const int64_t dim = c.axis("dim", static_cast<int64_t>(shape.size()) + 1);
  shape.insert(shape.begin() + dim, Dim(1));
  for (Value*& t : tensors) t = c.reshape(c.cast(t, dtype), shape);
  if (tensors.size() == 1) return tensors[0];
  return c.op(ops::kConcat, tensors, {{"dim", dim}});
}

namespace {

// Padding as ATen lists it: (before, after) of the last dimension first.
Out padded(Call& c, const char* pad_name, const std::string& mode, double value) {
  Value* self = c.tensor("self");
  const int64_t rank = rank_of(self);
  const Ints pad = c.ints(pad_name);
  if (pad.size() % 2 != 0 || static_cast<int64_t>(pad.size() / 2) > rank) {
    c.invalid(cat("argument '", pad_name, "' has ", pad.size(), " entries for rank ", rank));
    return {};
  }
  Ints before(static_cast<size_t>(rank));
  Ints after(static_cast<size_t>(rank));
  bool any = false;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = static_cast<size_t>(rank) - 1 - i;
    before[d] = pad[2 * i];
    after[d] = pad[2 * i + 1];
    any = any || before[d] != 0 || after[d] != 0;
  }
  if (!any) return self;
  return c.op(ops::kPad, {self},
              {{"before", before}, {"after", after}, {"value", value}, {"mode", mode}});
}

Out repeated(Call& c, Value* self, Dims repeats) {
  Dims shape = dims_of(self);
  if (repeats.size() < shape.size()) {
    c.invalid(cat("argument 'repeats' has ", repeats.size(), " entries for rank ", shape.size()));
    return {};
  }
  shape.insert(shape.begin(), repeats.size() - shape.size(), Dim(1));
  bool fixed = true;
  for (const Dim& r : repeats) fixed = fixed && r.is_static();
  if (fixed) {
    Ints counts;
    bool any = false;
    for (const Dim& r : repeats) {
      counts.push_back(r.value());
      any = any || r.value() != 1;
    }
    if (!any) return c.reshape(self, shape);
    return c.op(ops::kRepeat, {self}, {{"repeats", counts}});
  }
  // [a, b] → [1, a, 1, b] → [r0, a, r1, b] → [r0·a, r1·b]
  Dims separate;
  Dims expanded_shape;
  Dims result;
  for (size_t d = 0; d < shape.size(); ++d) {
    separate.insert(separate.end(), {Dim(1), shape[d]});
    expanded_shape.insert(expanded_shape.end(), {repeats[d], shape[d]});
    result.push_back(repeats[d] * shape[d]);
  }
  return c.reshape(c.expand(c.reshape(self, separate), expanded_shape), result);
}

}  // namespace

Out raise_constant_pad(Call& c) { return padded(c, "pad", "constant", c.f("value")); }

Out raise_pad(Call& c) {
  const std::string mode = c.s("mode");
  if (mode != "constant" && mode != "reflect" && mode != "replicate") {
    c.fail(cat("mode '", printable(mode), "', expected constant, reflect or replicate"));
    return {};
  }
  return padded(c, "pad", mode, c.maybe_f("value").value_or(0.0));
}

Out raise_reflection_pad(Call& c) { return padded(c, "padding", "reflect", 0.0); }
Out raise_replication_pad(Call& c) { return padded(c, "padding", "replicate", 0.0); }

Out raise_repeat(Call& c) {
  Value* self = c.tensor("self");
  return repeated(c, self, c.dims("repeats"));
}

Out raise_tile(Call& c) {
  Value* self = c.tensor("self");
  Dims repeats = c.dims("dims");
  const size_t rank = dims_of(self).size();
  if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), Dim(1));
  return repeated(c, self, std::move(repeats));
}

Out raise_repeat_interleave(Call& c) {
  Value* self = c.tensor("self");
  const Dim repeats = c.dim("repeats");
  if (!c.ok()) return {};
  if (!c.has("dim")) self = c.reshape(self, {num_elements(dims_of(self))});
  const Shape shape = dims_of(self);
  const int64_t rank = rank_of(self);
  const int64_t dim = c.has("dim") ? c.axis("dim", rank) : 0;
  if (rank == 0 || !c.ok()) return {};
  const Dim size = shape[static_cast<size_t>(dim)];
  Value* separate = c.reshape(self, replaced(shape, dim, 1, {size, Dim(1)}));
  Value* wide = c.expand(separate, replaced(shape, dim, 1, {size, repeats}));
  return c.reshape(wide, replaced(shape, dim, 1, {size * repeats}));
}

Out raise_roll(Call& c) {
  Value* self = c.tensor("self");
  const Ints shifts = c.ints("shifts");
  Ints dims = c.ints("dims");
  const Shape shape = dims_of(self);
  if (!dims.empty()) {
    for (int64_t& d : dims) d = c.wrap_axis(d, rank_of(self));
    return c.op(ops::kRoll, {self}, {{"shifts", shifts}, {"dims", dims}});
  }
  Value* flat = c.reshape(self, {num_elements(shape)});
  return c.reshape(c.op(ops::kRoll, {flat}, {{"shifts", shifts}, {"dims", Ints{0}}}), shape);
}

Out raise_flip(Call& c) {
  Value* self = c.tensor("self");
  Ints dims = c.ints("dims");
  for (int64_t& d : dims) d = c.wrap_axis(d, rank_of(self));
  if (dims.empty()) return self;
  return c.op(ops::kFlip, {self}, {{"dims", dims}});
}

Out raise_channel_shuffle(Call& c) {
  Value* self = c.tensor("self");
  const Shape shape = dims_of(self);
  const int64_t groups = c.i("groups");
  const std::optional<Dim> each =
      shape.size() >= 3 && groups > 0 ? shape[1].divided_by(Dim(groups)) : std::nullopt;
  if (!each) {
    c.invalid(cat("shape ", str(shape), " has no channels in ", groups, " groups"));
    return {};
  }
  Value* grouped = c.reshape(self, replaced(shape, 1, 1, {Dim(groups), *each}));
  Ints dims(shape.size() + 1);
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[1], dims[2]);
  return c.reshape(c.permute(grouped, dims), shape);
}

namespace {

Out meshed(Call& c, bool xy) {
  std::vector<Value*> tensors = c.tensors("tensors");
  Dims shape;
  for (Value* t : tensors) shape.push_back(num_elements(dims_of(t)));
  std::vector<Value*> grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Dims one(shape.size(), Dim(1));
    one[i] = shape[i];
    Value* grid = c.expand(c.reshape(tensors[i], one), shape);
    if (xy && shape.size() >= 2) {
      Ints dims(shape.size());
      std::iota(dims.begin(), dims.end(), 0);
      std::swap(dims[0], dims[1]);
      grid = c.permute(grid, dims);
    }
    grids.push_back(grid);
  }
  return grids;
}

}  // namespace

Out raise_meshgrid(Call& c) { return meshed(c, false); }
Out raise_meshgrid_indexing(Call& c) { return meshed(c, c.s("indexing") == "xy"); }

}  // namespace downhaul::aten

#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "base/strings.h"
#include "dialects/mil/raiser.h"

namespace downhaul::coreml {
namespace {

Dims dims_of(const Sizes& sizes) { return {sizes.begin(), sizes.end()}; }

Value* reshaped(RaiseCall& c, Value* x, const Sizes& sizes) {
  return c.b.op(ops::kReshape, {x}, {{"shape", dims_of(sizes)}});
}

Value* part(RaiseCall& c, Value* x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  return c.b.op(ops::kSlice, {x},
                {{"dim", axis}, {"start", Dim(begin)}, {"end", Dim(end)}, {"step", step}});
}

Values concat(RaiseCall& c) {
  const std::vector<Value*> values = c.list("values");
  if (values.empty()) return {nullptr};
  if (c.flag("interleave", false)) return {c.refuse("interleave")};
  return {c.b.op(ops::kConcat, values, {{"dim", c.axis(c.integer("axis", 0), values[0]->rank())}})};
}

Values split(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  const int64_t axis = c.axis(c.integer("axis", 0), x->rank());
  const int64_t whole = x->dim(axis).value();
  Ints sizes = c.ints("split_sizes", {});
  if (sizes.empty()) {
    const int64_t count = c.integer("num_splits", 1);
    if (count < 1 || count > whole || whole % count != 0) {
      return {c.refuse(cat("num_splits ", count, " of ", whole))};
    }
    sizes.assign(static_cast<size_t>(count), whole / count);
  }
  Values out;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > whole - begin) return {c.refuse("split_sizes beyond the dimension")};
    out.push_back(part(c, x, axis, begin, begin + size, 1));
    begin += size;
  }
  return out;
}

Values transpose(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  return {c.b.op(ops::kPermute, {x}, {{"dims", c.axes(c.ints("perm"), x->rank())}})};
}

Values reshape(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  const Sizes from = c.sizes(x);
  Ints shape = c.ints("shape");
  const auto all = checked_num_elements(from);
  std::optional<int64_t> known = 1;
  int64_t open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && i < from.size()) shape[i] = from[i];
    if (shape[i] == -1) {
      open = static_cast<int64_t>(i);
    } else if (known) {
      known = checked_mul(*known, std::max<int64_t>(shape[i], 1));
    }
  }
  if (!all || !known) return {c.refuse("shape: more elements than any tensor has")};
  if (open >= 0) shape[static_cast<size_t>(open)] = *all / *known;
  return {reshaped(c, x, shape)};
}

Values expand_dims(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  Sizes sizes = c.sizes(x);
  const Ints given = c.ints("axes");
  Ints axes = c.axes(given, x->rank() + static_cast<int64_t>(given.size()));
  std::sort(axes.begin(), axes.end());
  for (const int64_t a : axes) {
    if (a > static_cast<int64_t>(sizes.size())) return {c.refuse("axes with gaps")};
    sizes.insert(sizes.begin() + a, 1);
  }
  return {reshaped(c, x, sizes)};
}

Values squeeze(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  const Sizes from = c.sizes(x);
  Ints axes;
  if (c.has("axes")) axes = c.axes(c.ints("axes"), x->rank());
  Sizes to;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (named && from[i] != 1) return {c.refuse(cat("axis ", i, " has size ", from[i]))};
    if (!(named || (!c.has("axes") && from[i] == 1))) to.push_back(from[i]);
  }
  return {reshaped(c, x, to)};
}

Values slice_by_index(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  const Sizes from = c.sizes(x);
  const size_t rank = from.size();
  const Ints begin = c.ints("begin"), end = c.ints("end");
  const Ints stride = c.ints("stride", Ints(rank, 1));
  const auto from_begin = c.flags("begin_mask", rank), to_end = c.flags("end_mask", rank),
             drop = c.flags("squeeze_mask", rank);
  if (begin.size() != rank || end.size() != rank || stride.size() != rank) {
    return {c.refuse("begin, end and stride: expected a number for each dimension")};
  }
  Sizes kept;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t size = from[d];
    const auto place = [&](int64_t v) {
      return std::clamp<int64_t>(v < 0 ? v + size : v, 0, size);
    };
    int64_t first = from_begin[d] ? 0 : place(begin[d]);
    int64_t last = to_end[d] ? size : place(end[d]);
    if (drop[d]) last = first + 1;
    if (stride[d] < 1 || last < first || last > size) return {c.refuse(cat("dimension ", d))};
    const auto axis = static_cast<int64_t>(d);
    if (first != 0 || last != size || stride[d] != 1) x = part(c, x, axis, first, last, stride[d]);
    if (!drop[d]) kept.push_back((last - first + stride[d] - 1) / stride[d]);
  }
  if (kept.size() != rank) x = reshaped(c, x, kept);
  return {x};
}

Values slice_by_size(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  const Sizes from = c.sizes(x);
  const Ints begin = c.ints("begin"), size = c.ints("size");
  if (begin.size() != from.size() || size.size() != from.size())
    return {c.refuse("begin and size")};
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t last = size[d] == -1 ? from[d] : begin[d] + size[d];
    if (begin[d] < 0 || last < begin[d] || last > from[d]) return {c.refuse(cat("dimension ", d))};
    if (begin[d] != 0 || last != from[d])
      x = part(c, x, static_cast<int64_t>(d), begin[d], last, 1);
  }
  return {x};
}

Values tile(RaiseCall& c) {
  Value* x = c.in("x");
  const Ints reps = c.ints("reps");
  if (x == nullptr || static_cast<int64_t>(reps.size()) != x->rank()) return {c.refuse("reps")};
  return {c.b.op(ops::kRepeat, {x}, {{"repeats", reps}})};
}

Values reverse(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  return {c.b.op(ops::kFlip, {x}, {{"dims", c.axes(c.ints("axes"), x->rank())}})};
}

Values pad(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  const Ints given = c.ints("pad");
  const auto rank = static_cast<size_t>(x->rank());
  if (c.text("mode", "constant") != "constant" || given.size() % 2 != 0 ||
      given.size() > 2 * rank) {
    return {c.refuse("another mode than constant, or more numbers than sides")};
  }
  // Given for the last dimensions.
  Ints before(rank, 0), after(rank, 0);
  const size_t first = rank - given.size() / 2;
  for (size_t i = 0; i < given.size() / 2; ++i) {
    before[first + i] = given[2 * i];
    after[first + i] = given[2 * i + 1];
  }
  return {c.b.op(ops::kPad, {x},
                 {{"before", before}, {"after", after}, {"value", c.number("constant_val", 0)}})};
}

/// Later versions pick by 8 and 16 bits.
Value* index_of(RaiseCall& c) {
  Value* indices = c.in("indices");
  if (indices == nullptr || indices->dtype() == DType::kI32 || is_float(indices->dtype())) {
    return indices;
  }
  return c.b.op(ops::kCast, {indices}, {{"dtype", DType::kI32}});
}

/// Rows of a table are an embedding; elsewhere the indices stand for a dimension.
Values gather(RaiseCall& c) {
  Value* x = c.in("x");
  Value* indices = index_of(c);
  if (x == nullptr || indices == nullptr) return {nullptr};
  const int64_t axis = c.axis(c.integer("axis", 0), x->rank());
  if (c.integer("batch_dims", 0) != 0) return {c.refuse("batch_dims")};
  if (axis == 0 && x->rank() == 2) return {c.b.op(ops::kEmbedding, {x, indices})};
  const Sizes picked = c.sizes(indices);
  Sizes out = c.sizes(x);
  out.erase(out.begin() + axis);
  out.insert(out.begin() + axis, picked.begin(), picked.end());
  const auto count = checked_num_elements(picked);
  if (!count) return {c.refuse("indices: more elements than any tensor has")};
  Value* flat = reshaped(c, indices, {*count});
  Value* rows = c.b.op(ops::kIndexSelect, {x, flat}, {{"dim", axis}});
  return {reshaped(c, rows, out)};
}

Values gather_along_axis(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  return {
      c.b.op(ops::kGather, {x, index_of(c)}, {{"dim", c.axis(c.integer("axis", 0), x->rank())}})};
}

constexpr RaiseRow kRows[] = {
    {"concat", concat},
    {"expand_dims", expand_dims},
    {"gather", gather},
    {"gather_along_axis", gather_along_axis},
    {"pad", pad},
    {"reshape", reshape},
    {"reverse", reverse},
    {"slice_by_index", slice_by_index},
    {"slice_by_size", slice_by_size},
    {"split", split},
    {"squeeze", squeeze},
    {"tile", tile},
    {"transpose", transpose},
};

}  // namespace

std::span<const RaiseRow> raise_shape_rows() { return kRows; }

}  // namespace downhaul::coreml

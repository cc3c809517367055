#include "dialects/aten/shapes.h"

#include <algorithm>

#include "base/strings.h"

namespace downhaul::aten {

Dim smaller(const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  if (difference.max() <= 0) return a;
  if (difference.min() >= 0) return b;
  return min(a, b);
}

Dim larger(const Dim& a, const Dim& b) {
  const Dim difference = a - b;
  if (difference.min() >= 0) return a;
  if (difference.max() <= 0) return b;
  return max(a, b);
}

Dims resolve_shape(Call& c, const Dim& count, Dims shape) {
  std::optional<size_t> open;
  Dim known = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == Dim(-1)) {
      if (open) {
        c.invalid("two sizes of -1");
        return {};
      }
      open = d;
    } else {
      known = known * shape[d];
    }
  }
  if (open) {
    std::optional<Dim> rest;
    if (known.is_static() && known.value() == 0) {
      if (count == Dim(0)) rest = Dim(0);
    } else {
      rest = count.divided_by(known);
      // A quotient of dynamic sizes that the exporter has found to be whole.
      if (!rest && !(count.is_static() && known.is_static()) && known.min() > 0) {
        rest = floor_div(count, known);
      }
    }
    if (!rest) {
      c.invalid(cat(count.str(), " elements do not fill the shape ", str(shape)));
      return {};
    }
    shape[*open] = *rest;
  }
  return shape;
}

Range clamp_range(const Dim& size, const std::optional<Dim>& start, const std::optional<Dim>& end) {
  const auto clamp = [&](const std::optional<Dim>& position, const Dim& otherwise) -> Dim {
    if (!position) return otherwise;
    Dim p = *position;
    if (p.is_static()) {
      // Ends reach 2^63-1, so compare before computing.
      if (p.value() >= size.max()) return size;
      if (p.value() < 0) {
        if (size.is_static() && p.value() < -size.value()) return 0;
        p = size + p;
      }
    } else if (p.max() < 0) {
      p = size + p;
    }
    return smaller(larger(p, 0), size);
  };
  Range range{clamp(start, 0), clamp(end, size)};
  range.end = larger(range.end, range.start);
  return range;
}

Dim wrap_index(Call& c, const Dim& index, const Dim& size) {
  const Dim position = index.max() < 0 ? index + size : index;
  if (position.max() < 0 || (position - size).min() >= 0) {
    c.invalid(cat("index ", index.str(), " of a dimension of size ", size.str()));
    return 0;
  }
  return position;
}

namespace {

struct Concrete {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

std::optional<Concrete> concrete(const pt2::TensorMeta& meta) {
  if (meta.sizes.size() != meta.strides.size()) return std::nullopt;
  Concrete result;
  for (size_t d = 0; d < meta.sizes.size(); ++d) {
    if (!meta.sizes[d].value || !meta.strides[d].value) return std::nullopt;
    result.sizes.push_back(*meta.sizes[d].value);
    result.strides.push_back(*meta.strides[d].value);
  }
  return result;
}

}  // namespace

bool is_contiguous(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

bool is_contiguous(const pt2::TensorMeta& meta) {
  const std::optional<Concrete> t = concrete(meta);
  return !t || is_contiguous(t->sizes, t->strides);
}

bool can_view(const pt2::TensorMeta& meta, const Dims& shape,
              const std::optional<std::vector<int64_t>>& example) {
  const std::optional<Concrete> t = concrete(meta);
  std::vector<int64_t> target;
  if (example) {
    target = *example;
  } else {
    for (const Dim& d : shape) {
      if (!d.is_static()) return is_contiguous(meta);
      target.push_back(d.value());
    }
  }
  if (!t || is_contiguous(meta)) return true;
  // Dimensions that lie without gaps one behind the other form runs, which can be cut anew; a new
  // dimension must not span two runs.
  size_t next = target.size();
  int64_t run = 1;
  int64_t cut = 1;
  int64_t innermost = t->sizes.empty() ? 1 : t->strides.back();
  for (size_t d = t->sizes.size(); d-- > 0;) {
    run *= t->sizes[d];
    const bool goes_on = d > 0 && (t->sizes[d - 1] == 1 || t->strides[d - 1] == run * innermost);
    if (goes_on) continue;
    while (next > 0 && (cut < run || target[next - 1] == 1)) cut *= target[--next];
    if (cut != run) return false;
    if (d > 0) innermost = t->strides[d - 1];
    run = 1;
    cut = 1;
  }
  return true;
}

Dims replaced(const Shape& shape, int64_t dim, int64_t count, const Dims& sizes) {
  Dims result(shape.begin(), shape.begin() + dim);
  result.insert(result.end(), sizes.begin(), sizes.end());
  result.insert(result.end(), shape.begin() + dim + count, shape.end());
  return result;
}

Dims broadcast(Call& c, const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Dims result = longer;
  const size_t skip = longer.size() - shorter.size();
  for (size_t d = 0; d < shorter.size(); ++d) {
    Dim& size = result[skip + d];
    if (size == shorter[d] || shorter[d] == Dim(1)) continue;
    if (size == Dim(1)) {
      size = shorter[d];
    } else if (size.is_static() && shorter[d].is_static()) {
      c.invalid(cat("shapes ", str(a), " and ", str(b), " do not broadcast"));
    } else if (shorter[d].is_static()) {
      size = shorter[d];
    }
  }
  return result;
}

}  // namespace downhaul::aten

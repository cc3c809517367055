#include "ops/infer.h"

#include <algorithm>

namespace downhaul {

namespace {

/// Larger than any real kernel, stride or count.
constexpr int64_t kIntLimit = int64_t{1} << 31;

template <typename Accept>
Status require_kind(const Node& node, std::string_view arg, std::string_view expected,
                    Accept accept) {
  const Value* value = node.operand(arg);
  if (value == nullptr || accept(value->dtype())) return {};
  return invalid_graph(cat(arg, ": expected ", expected, ", found ", value->type().str()));
}

}  // namespace

Status require_float(const Node& node, std::string_view arg) {
  return require_kind(node, arg, "a floating-point dtype", is_float);
}

Status require_number(const Node& node, std::string_view arg) {
  return require_kind(node, arg, "an integer or floating-point dtype",
                      [](DType d) { return d != DType::kBool; });
}

Status require_bool(const Node& node, std::string_view arg) {
  return require_kind(node, arg, "bool", [](DType d) { return d == DType::kBool; });
}

Status require_index_dtype(std::string_view arg, const TensorType& type) {
  if (type.dtype == DType::kI32 || type.dtype == DType::kI64) return {};
  return invalid_graph(cat(arg, ": expected i32 or i64 indices, found ", type.str()));
}

Status require_dtype(const Node& node, std::string_view arg, DType expected) {
  return require_kind(node, arg, name(expected), [&](DType d) { return d == expected; });
}

Status require_same_dtype(const Node& node, std::initializer_list<std::string_view> args) {
  const std::string_view first = *args.begin();
  for (const std::string_view arg : args) {
    const Value* value = node.operand(arg);
    if (value != nullptr && value->dtype() != node.type(first).dtype) {
      return invalid_graph(cat(arg, ": expected ", name(node.type(first).dtype), " like ", first,
                               ", found ", value->type().str()));
    }
  }
  return {};
}

Status require_rank(const Node& node, std::string_view arg, int64_t rank) {
  const Value* value = node.operand(arg);
  if (value == nullptr || value->rank() == rank) return {};
  return invalid_graph(cat(arg, ": expected rank ", rank, ", found ", value->type().str()));
}

Status require_min_rank(const Node& node, std::string_view arg, int64_t rank) {
  const Value* value = node.operand(arg);
  if (value == nullptr || value->rank() >= rank) return {};
  return invalid_graph(
      cat(arg, ": expected rank at least ", rank, ", found ", value->type().str()));
}

Status require_shape(const Node& node, std::string_view arg, const Shape& expected) {
  const Value* value = node.operand(arg);
  if (value == nullptr || value->shape() == expected) return {};
  return invalid_graph(
      cat(arg, ": expected shape ", str(expected), ", found ", value->type().str()));
}

Status require_dim(std::string_view arg, int64_t index, const Dim& found, const Dim& expected) {
  if (found == expected) return {};
  return invalid_graph(cat(arg, ": expected size ", expected.str(), " in dimension ", index,
                           ", found ", found.str()));
}

Status require_axis(const Node& node, std::string_view attr, int64_t rank) {
  const int64_t axis = node.i(attr);
  if (axis >= -rank && axis < rank) return {};
  return invalid_graph(
      cat(attr, ": expected a dimension in [", -rank, ", ", rank, "), found ", axis));
}

Status require_axes(const Node& node, std::string_view attr, int64_t rank) {
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (const int64_t axis : node.ints(attr)) {
    if (axis < 0 || axis >= rank) {
      return invalid_graph(cat(attr, ": expected dimensions in [0, ", rank, "), found ", axis));
    }
    if (seen[static_cast<size_t>(axis)]) {
      return invalid_graph(cat(attr, ": dimension ", axis, " appears twice"));
    }
    seen[static_cast<size_t>(axis)] = true;
  }
  return {};
}

Status require_ints(const Node& node, std::string_view attr, size_t count, int64_t least) {
  const Ints& values = node.ints(attr);
  if (values.size() != count) {
    return invalid_graph(cat(attr, ": expected ", count, " entries, found ", values.size()));
  }
  for (const int64_t v : values) {
    if (v < least || v >= kIntLimit) {
      return invalid_graph(
          cat(attr, ": expected entries in [", least, ", ", kIntLimit, "), found ", v));
    }
  }
  return {};
}

Status require_int(const Node& node, std::string_view attr, int64_t least) {
  const int64_t v = node.i(attr);
  if (v >= least && v < kIntLimit) return {};
  return invalid_graph(
      cat(attr, ": expected a value in [", least, ", ", kIntLimit, "), found ", v));
}

Status require_one_of(const Node& node, std::string_view attr,
                      std::initializer_list<std::string_view> values) {
  const std::string& found = node.s(attr);
  if (std::find(values.begin(), values.end(), found) != values.end()) return {};
  return invalid_graph(
      cat(attr, ": expected one of ", join(values, ", "), ", found '", printable(found), "'"));
}

Status require_sizes(const Node& node, std::string_view attr) {
  for (const Dim& d : node.dims(attr)) {
    if (d.min() < 0) {
      return invalid_graph(cat(attr, ": expected sizes of at least 0, found ", d.str()));
    }
  }
  return {};
}

Result<Shape> broadcast_shapes(std::string_view name_a, const Shape& a, std::string_view name_b,
                               const Shape& b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (size_t back = 1; back <= rank; ++back) {
    const Dim da = back <= a.size() ? a[a.size() - back] : Dim(1);
    const Dim db = back <= b.size() ? b[b.size() - back] : Dim(1);
    if (da == db || db == Dim(1)) {
      out[rank - back] = da;
    } else if (da == Dim(1)) {
      out[rank - back] = db;
    } else {
      return invalid_graph(cat(name_a, " and ", name_b, ": expected shapes that broadcast, found ",
                               str(a), " and ", str(b)));
    }
  }
  return out;
}

Status require_broadcastable(std::string_view name, const Shape& from, const Shape& to) {
  bool fits = from.size() <= to.size();
  for (size_t back = 1; fits && back <= from.size(); ++back) {
    const Dim& d = from[from.size() - back];
    fits = d == Dim(1) || d == to[to.size() - back];
  }
  if (fits) return {};
  return invalid_graph(
      cat(name, ": expected a shape that broadcasts to ", str(to), ", found ", str(from)));
}

Dim ceil_div(const Dim& a, int64_t b) { return b == 1 ? a : floor_div(a + Dim(b - 1), Dim(b)); }

bool always_greater(const Dim& a, const Dim& b) { return (a - b).min() > 0; }

TypesResult infer_same(const Node& node) { return one_type(node.operand(0)->type()); }

TypesResult infer_same_number(const Node& node) {
  DH_TRY(require_number(node, "self"));
  return infer_same(node);
}

TypesResult infer_same_float(const Node& node) {
  DH_TRY(require_float(node, "self"));
  return infer_same(node);
}

}  // namespace downhaul

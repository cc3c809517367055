#include "ir/type.h"

#include <algorithm>

#include "base/strings.h"

namespace downhaul {

bool TensorType::is_static() const {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_static(); });
}

std::string TensorType::str() const { return cat(name(dtype), downhaul::str(shape)); }

Sizes static_sizes(const Shape& shape) {
  Sizes out;
  out.reserve(shape.size());
  for (const Dim& d : shape) out.push_back(d.value());
  return out;
}

Sizes max_sizes(const Shape& shape) {
  Sizes out;
  out.reserve(shape.size());
  for (const Dim& d : shape) out.push_back(d.max());
  return out;
}

std::optional<Sizes> eval_sizes(const Shape& shape, const Bindings& bindings) {
  Sizes out;
  out.reserve(shape.size());
  for (const Dim& d : shape) {
    const auto value = d.eval(bindings);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

Shape shape_of(const Sizes& sizes) { return Shape(sizes.begin(), sizes.end()); }

Dim num_elements(const Shape& shape) {
  Dim n(1);
  for (const Dim& d : shape) n = n * d;
  return n;
}

std::string str(const Shape& shape) {
  std::vector<std::string> parts;
  parts.reserve(shape.size());
  for (const Dim& d : shape) parts.push_back(d.str());
  return cat("[", join(parts, ","), "]");
}

}  // namespace downhaul

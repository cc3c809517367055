#pragma once

#include <optional>
#include <string>

#include "ir/dim.h"
#include "tensor/tensor.h"

namespace downhaul {

/// Logical shape, outermost dimension first (images are NCHW unless an operator's `layout` says
/// otherwise).
using Shape = Dims;

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  bool is_static() const;
  /// "f32[1,s0,768]"
  std::string str() const;
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

/// Concrete sizes of a static shape (DH_CHECK), at the upper bounds, or in one run.
Sizes static_sizes(const Shape& shape);
Sizes max_sizes(const Shape& shape);
std::optional<Sizes> eval_sizes(const Shape& shape, const Bindings& bindings);
Shape shape_of(const Sizes& sizes);
inline TensorType type_of(const Tensor& t) { return {t.dtype(), shape_of(t.sizes())}; }

Dim num_elements(const Shape& shape);
std::string str(const Shape& shape);

}  // namespace downhaul

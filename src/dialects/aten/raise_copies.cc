// Casts, copies and what computes nothing. A copy has the same content and a storage of its own.
#include <array>

#include "base/strings.h"
#include "dialects/aten/raise.h"
#include "dialects/aten/shapes.h"

namespace downhaul::aten {
namespace {

// memory_format: 0 unknown, 1 contiguous, 2 channels last, 4 preserve; None keeps.
bool keeps_memory(Call& c) {
  const pt2::TensorMeta* from = c.meta("self");
  const pt2::TensorMeta* to = c.result_meta();
  if (from == nullptr || to == nullptr || from->strides.size() != to->strides.size()) return true;
  for (size_t d = 0; d < from->strides.size(); ++d) {
    if (from->sizes[d].value == 1) continue;  // its stride has no meaning
    if (from->strides[d].value != to->strides[d].value) return false;
  }
  return true;
}

Out converted(Call& c, DType dtype) {
  View* self = c.view("self");
  Value* value = c.read(self);
  if (dtype_of(value) != dtype) return c.cast(value, dtype);
  if (c.b("copy") || !keeps_memory(c)) return value;
  return self;
}

}  // namespace

Out raise_alias(Call& c) { return c.view("self"); }
Out raise_copy_of(Call& c) { return c.tensor("self"); }

Out raise_contiguous(Call& c) {
  View* self = c.view("self");
  if (keeps_memory(c)) return self;
  return c.read(self);
}

Out raise_to(Call& c) {
  const std::optional<DType> dtype = c.dtype("dtype");
  return converted(c, dtype.value_or(dtype_of(c.tensor("self"))));
}

Out raise_to_other(Call& c) { return converted(c, dtype_of(c.tensor("other"))); }

Out raise_type_as(Call& c) {
  View* self = c.view("self");
  Value* value = c.read(self);
  const DType dtype = dtype_of(c.tensor("other"));
  if (dtype_of(value) == dtype) return self;
  return c.cast(value, dtype);
}

Out raise_to_copy(Call& c) {
  Value* self = c.tensor("self");
  return c.cast(self, c.dtype("dtype").value_or(dtype_of(self)));
}

// copy_(self, src): src in self's dtype and shape.
Out raise_copy(Call& c) {
  Value* self = c.tensor("self");
  return c.expand(c.cast(c.tensor("src"), dtype_of(self)), dims_of(self));
}

Out raise_dropout(Call& c) {
  const char* self = c.row().parameters[0].name == "self" ? "self" : "input";
  if (c.b("train") && c.f("p") != 0.0) {
    c.fail("dropout in training mode; export the model after model.eval()");
  }
  return c.view(self);
}

Out raise_nothing(Call&) { return {}; }

// The element of a tensor as a number: only when it does not depend on an input.
Out raise_item(Call& c) {
  Value* self = c.tensor("self");
  if (!c.ok()) return {};
  const std::optional<Tensor> content = c.fold(self);
  if (!content) {
    return Sym(Unknown{cat(c.row().overload, " of '", self->name(), "', which is not constant")});
  }
  if (content->num_elements() != 1) {
    c.invalid(cat("a tensor of ", content->num_elements(), " elements, expected 1"));
    return {};
  }
  if (content->dtype() == DType::kBool) return Sym(content->int_at(0) != 0);
  if (is_float(content->dtype())) return Sym(content->at(0));
  return Sym(Dim(content->int_at(0)));
}

Out raise_sym_size(Call& c) {
  View* self = c.view("self");
  if (!c.ok()) return {};
  const Shape& shape = self->type.shape;
  const int64_t dim = c.axis("dim", static_cast<int64_t>(shape.size()));
  if (shape.empty()) c.invalid("a tensor of rank 0");
  if (!c.ok()) return {};
  return Sym(shape[static_cast<size_t>(dim)]);
}

Out raise_sym_numel(Call& c) {
  View* self = c.view("self");
  if (!c.ok()) return {};
  return Sym(num_elements(self->type.shape));
}

}  // namespace downhaul::aten

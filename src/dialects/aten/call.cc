#include "dialects/aten/call.h"

#include <algorithm>

#include "base/strings.h"
#include "dialects/aten/table.h"

namespace downhaul::aten {
namespace {

const pt2::Argument kNone = pt2::None{};

bool is_none(const pt2::Argument& a) { return std::holds_alternative<pt2::None>(a); }

}  // namespace

int64_t rank_of(const Value* v) { return v == nullptr ? 0 : v->rank(); }
Shape dims_of(const Value* v) { return v == nullptr ? Shape{} : v->shape(); }
DType dtype_of(const Value* v) { return v == nullptr ? DType::kF32 : v->dtype(); }

std::optional<DType> to_dtype(pt2::ScalarType type) {
  switch (type) {
    case pt2::ScalarType::kBool:
      return DType::kBool;
    case pt2::ScalarType::kUint8:
      return DType::kU8;
    case pt2::ScalarType::kInt8:
      return DType::kI8;
    case pt2::ScalarType::kInt16:
      return DType::kI16;
    case pt2::ScalarType::kInt32:
      return DType::kI32;
    case pt2::ScalarType::kInt64:
      return DType::kI64;
    case pt2::ScalarType::kFloat16:
      return DType::kF16;
    case pt2::ScalarType::kBfloat16:
      return DType::kBF16;
    case pt2::ScalarType::kFloat32:
      return DType::kF32;
    case pt2::ScalarType::kFloat64:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

DType result_type(std::span<const Operand> operands) {
  // One dtype for each class of operand, the classes in falling order of weight.
  std::optional<DType> dimensioned;
  std::optional<DType> rank0;
  std::optional<DType> number;
  const auto join = [](std::optional<DType>& into, DType d) {
    into = into ? promote(*into, d) : d;
  };
  for (const Operand& o : operands) {
    if (const Number* n = std::get_if<Number>(&o)) {
      join(number, n->kind == Number::Kind::kBool  ? DType::kBool
                   : n->kind == Number::Kind::kInt ? DType::kI64
                                                   : DType::kF32);
    } else {
      const Value* v = std::get<Value*>(o);
      join(rank_of(v) == 0 ? rank0 : dimensioned, dtype_of(v));
    }
  }
  const auto category = [](DType d) { return is_float(d) ? 2 : is_integer(d) ? 1 : 0; };
  const auto outrank = [&](std::optional<DType> high,
                           std::optional<DType> low) -> std::optional<DType> {
    if (!high || !low) return high ? high : low;
    return category(*low) > category(*high) ? promote(*high, *low) : *high;
  };
  return outrank(dimensioned, outrank(rank0, number)).value_or(DType::kF32);
}

std::string Call::name_hint() const {
  for (const pt2::Argument& output : node_.outputs) {
    if (const auto* ref = std::get_if<pt2::TensorRef>(&output)) return ref->name;
  }
  return node_.name.empty() ? "v" : node_.name;
}

const OpDef& Call::row_op() const {
  DH_CHECK(row_.op != nullptr);
  return *row_.op;
}

const pt2::Argument& Call::argument(std::string_view name) {
  const Parameter* parameter = row_.find(name);
  DH_CHECK(parameter != nullptr);
  if (const pt2::Argument* given = node_.find(name)) return *given;
  // Required arguments that are missing were refused before the row's function was called.
  return parameter->has_default ? parameter->default_value : kNone;
}

void Call::wrong_kind(std::string_view name, std::string_view wanted) {
  invalid(cat("argument '", name, "' is ", pt2::alternative_name(argument(name)), ", expected ",
              wanted));
}

bool Call::has(std::string_view name) { return !is_none(argument(name)); }

Value* Call::value_named(const std::string& name) {
  const Scope::Entity* e = entity(name);
  if (e == nullptr) return nullptr;
  if (View* const* v = std::get_if<View*>(e)) return read(*v);
  if (const Sym* s = std::get_if<Sym>(e)) {
    if (const Unknown* u = std::get_if<Unknown>(s)) {
      fail(cat("'", printable(name), "' depends on the values of tensors: ", u->reason));
      return nullptr;
    }
  }
  invalid(cat("'", printable(name), "' is not a tensor"));
  return nullptr;
}

View* Call::view(std::string_view name) {
  const auto* ref = std::get_if<pt2::TensorRef>(&argument(name));
  if (ref == nullptr) {
    wrong_kind(name, "a tensor");
    return nullptr;
  }
  const Scope::Entity* e = entity(ref->name);
  if (e == nullptr) return nullptr;
  if (View* const* v = std::get_if<View*>(e)) return *v;
  value_named(ref->name);  // says why not
  return nullptr;
}

Value* Call::tensor(std::string_view name) { return read(view(name)); }

Value* Call::maybe_tensor(std::string_view name) { return has(name) ? tensor(name) : nullptr; }

std::vector<Value*> Call::tensors(std::string_view name) {
  std::vector<Value*> values;
  const pt2::Argument& a = argument(name);
  if (const auto* list = std::get_if<pt2::TensorList>(&a)) {
    for (const std::string& n : list->names) values.push_back(value_named(n));
  } else if (const auto* optional = std::get_if<pt2::OptionalTensorList>(&a)) {
    for (const auto& n : optional->names) values.push_back(n ? value_named(*n) : nullptr);
  } else if (const auto* one = std::get_if<pt2::TensorRef>(&a)) {
    values.push_back(value_named(one->name));
  } else if (!is_none(a)) {
    wrong_kind(name, "a list of tensors");
  }
  if (!ok()) values.clear();
  return values;
}

std::optional<Sym> Call::sym(const pt2::Argument& argument) {
  const auto named = [&](const std::string& name) -> std::optional<Sym> {
    const Scope::Entity* e = entity(name);
    if (e == nullptr) return std::nullopt;
    if (const Sym* s = std::get_if<Sym>(e)) return *s;
    return std::nullopt;
  };
  if (const int64_t* i = std::get_if<int64_t>(&argument)) return Dim(*i);
  if (const double* f = std::get_if<double>(&argument)) return *f;
  if (const bool* b = std::get_if<bool>(&argument)) return *b;
  if (const auto* s = std::get_if<pt2::SymIntArg>(&argument)) {
    return s->name.empty() ? Sym(Dim(s->value)) : named(s->name);
  }
  if (const auto* s = std::get_if<pt2::SymFloatArg>(&argument)) {
    return s->name.empty() ? Sym(s->value) : named(s->name);
  }
  if (const auto* s = std::get_if<pt2::SymBoolArg>(&argument)) {
    return s->name.empty() ? Sym(s->value) : named(s->name);
  }
  return std::nullopt;
}

std::vector<Sym> Call::syms() {
  std::vector<Sym> values;
  for (const pt2::NamedArgument& a : node_.inputs) {
    std::optional<Sym> s = sym(a.value);
    if (!s) {
      // A tensor that decides a scalar (a branch on its content) is data-dependent.
      values.emplace_back(Unknown{cat("a ", pt2::alternative_name(a.value), " argument")});
      continue;
    }
    values.push_back(*std::move(s));
  }
  return values;
}

template <typename T>
std::optional<T> Call::scalar_argument(std::string_view name, std::string_view wanted) {
  const std::optional<Sym> value = sym(argument(name));
  if (!value) {
    if (ok()) wrong_kind(name, wanted);
    return std::nullopt;
  }
  if (const Unknown* u = std::get_if<Unknown>(&*value)) {
    fail(cat("argument '", name, "' depends on the values of tensors: ", u->reason));
    return std::nullopt;
  }
  const T* t = std::get_if<T>(&*value);
  if (t == nullptr) {
    invalid(cat("argument '", name, "' is ", str(*value), ", expected ", wanted));
    return std::nullopt;
  }
  return *t;
}

Number Call::number(std::string_view name) {
  const std::optional<Sym> value = sym(argument(name));
  if (!value) {
    if (ok()) wrong_kind(name, "a number");
    return {};
  }
  if (const Dim* d = std::get_if<Dim>(&*value)) {
    if (d->is_static()) return Number::of(d->value());
    Number n;
    n.symbolic = *d;
    return n;
  }
  if (const double* f = std::get_if<double>(&*value)) return Number::of(*f);
  if (const bool* b = std::get_if<bool>(&*value)) {
    return {Number::Kind::kBool, *b ? 1 : 0, *b ? 1.0 : 0.0, {}};
  }
  if (const Unknown* u = std::get_if<Unknown>(&*value)) {
    fail(cat("argument '", name, "' depends on the values of tensors: ", u->reason));
  } else {
    fail(cat("argument '", name, "' is ", str(*value), ", a fraction of a dynamic size"));
  }
  return {};
}

std::optional<Number> Call::maybe_number(std::string_view name) {
  if (!has(name)) return std::nullopt;
  return number(name);
}

Operand Call::operand(std::string_view name) {
  if (std::holds_alternative<pt2::TensorRef>(argument(name))) return tensor(name);
  return number(name);
}

Dim Call::dim(std::string_view name) {
  return scalar_argument<Dim>(name, "an integer").value_or(Dim(0));
}
std::optional<Dim> Call::maybe_dim(std::string_view name) {
  if (!has(name)) return std::nullopt;
  return dim(name);
}

int64_t Call::i(std::string_view name) {
  const Dim d = dim(name);
  if (!d.is_static()) {
    fail(cat("argument '", name, "' is the dynamic size ", d.str(), ", expected a fixed integer"));
    return 0;
  }
  return d.value();
}
std::optional<int64_t> Call::maybe_i(std::string_view name) {
  if (!has(name)) return std::nullopt;
  return i(name);
}

double Call::f(std::string_view name) {
  const Number n = number(name);
  if (n.symbolic) fail(cat("argument '", name, "' is a dynamic size, expected a fixed number"));
  return n.f;
}
std::optional<double> Call::maybe_f(std::string_view name) {
  if (!has(name)) return std::nullopt;
  return f(name);
}

bool Call::b(std::string_view name) {
  const pt2::Argument& a = argument(name);
  // Some schemas take a number where others take a truth value.
  if (const int64_t* n = std::get_if<int64_t>(&a)) return *n != 0;
  return scalar_argument<bool>(name, "true or false").value_or(false);
}

std::string Call::s(std::string_view name) {
  const std::string* text = std::get_if<std::string>(&argument(name));
  if (text == nullptr) {
    wrong_kind(name, "text");
    return {};
  }
  return *text;
}

Dims Call::dims(std::string_view name) {
  const pt2::Argument& a = argument(name);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&a)) {
    return Dims(list->begin(), list->end());
  }
  if (const auto* list = std::get_if<std::vector<pt2::SymIntArg>>(&a)) {
    Dims result;
    for (const pt2::SymIntArg& item : *list) {
      if (item.name.empty()) {
        result.emplace_back(item.value);
        continue;
      }
      const std::optional<Sym> value = sym(pt2::Argument(item));
      if (!value) {
        if (ok()) invalid(cat("argument '", name, "': '", printable(item.name), "' is no size"));
        return {};
      }
      const Dim* d = std::get_if<Dim>(&*value);
      if (d == nullptr) {
        fail(cat("argument '", name, "' holds '", printable(item.name),
                 "', which is not a size that can be known: ", str(*value)));
        return {};
      }
      result.push_back(*d);
    }
    return result;
  }
  if (is_none(a)) return {};
  // An empty list may come as a list of anything.
  if (const auto* list = std::get_if<std::vector<double>>(&a); list != nullptr && list->empty()) {
    return {};
  }
  const std::optional<Sym> one = sym(a);
  if (one && std::holds_alternative<Dim>(*one)) return {std::get<Dim>(*one)};
  if (ok()) wrong_kind(name, "a list of integers");
  return {};
}

Ints Call::ints(std::string_view name) {
  Ints result;
  for (const Dim& d : dims(name)) {
    if (!d.is_static()) {
      fail(cat("argument '", name, "' holds the dynamic size ", d.str(),
               ", expected fixed integers"));
      return {};
    }
    result.push_back(d.value());
  }
  return result;
}

Floats Call::floats(std::string_view name) {
  const pt2::Argument& a = argument(name);
  if (const auto* list = std::get_if<std::vector<double>>(&a)) return *list;
  if (const auto* list = std::get_if<std::vector<int64_t>>(&a)) {
    return Floats(list->begin(), list->end());
  }
  if (const auto* list = std::get_if<std::vector<pt2::SymFloatArg>>(&a)) {
    Floats result;
    for (const pt2::SymFloatArg& item : *list) {
      const std::optional<Sym> value = sym(pt2::Argument(item));
      const double* number = value ? std::get_if<double>(&*value) : nullptr;
      if (number == nullptr) {
        if (ok()) fail(cat("argument '", name, "' holds a dynamic number"));
        return {};
      }
      result.push_back(*number);
    }
    return result;
  }
  if (!is_none(a)) wrong_kind(name, "a list of numbers");
  return {};
}

std::optional<DType> Call::dtype(std::string_view name) {
  const pt2::Argument& a = argument(name);
  if (is_none(a)) return std::nullopt;
  const auto* type = std::get_if<pt2::ScalarType>(&a);
  if (type == nullptr) {
    wrong_kind(name, "a dtype");
    return std::nullopt;
  }
  const std::optional<DType> d = to_dtype(*type);
  if (!d) fail(cat("dtype ", pt2::name(*type), " is not supported"));
  return d;
}

int64_t Call::wrap_axis(int64_t axis, int64_t rank) {
  const int64_t r = std::max<int64_t>(rank, 1);
  if (axis < -r || axis >= r) {
    invalid(cat("dimension ", axis, " of a tensor of rank ", rank));
    return 0;
  }
  return axis < 0 ? axis + r : axis;
}

int64_t Call::axis(std::string_view name, int64_t rank) { return wrap_axis(i(name), rank); }

Ints Call::axes(std::string_view name, int64_t rank) {
  Ints result;
  for (const int64_t a : ints(name)) result.push_back(wrap_axis(a, rank));
  if (result.empty()) {
    for (int64_t d = 0; d < rank; ++d) result.push_back(d);
  }
  if (rank == 0) return {};
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end()) {
    invalid(cat("argument '", name, "' names a dimension twice"));
    return {};
  }
  return result;
}

const pt2::TensorMeta* Call::meta(std::string_view name) {
  const auto* ref = std::get_if<pt2::TensorRef>(&argument(name));
  return ref == nullptr ? nullptr : context_.meta(ref->name);
}

const pt2::TensorMeta* Call::result_meta() {
  if (node_.outputs.empty()) return nullptr;
  const auto* ref = std::get_if<pt2::TensorRef>(&node_.outputs[0]);
  return ref == nullptr ? nullptr : context_.meta(ref->name);
}

std::vector<Value*> Call::op_multi(const OpDef& op, std::vector<Value*> operands,
                                   const NamedAttrs& attrs) {
  std::vector<Value*> results = b_.op_multi(op, std::move(operands), attrs);
  if (results.empty()) results.resize(static_cast<size_t>(schema_of(op).num_results), nullptr);
  return results;
}

Value* Call::cast(Value* v, DType dtype) {
  if (v == nullptr || v->dtype() == dtype) return v;
  // Numbers that were hoisted to rank 0 need no node.
  if (v->is_constant() && v->rank() == 0 && v->constant().storage()->file() == nullptr) {
    if (const auto folded = context_.fold(v)) return constant(folded->cast(dtype));
  }
  return op(ops::kCast, {v}, {{"dtype", dtype}});
}

Value* Call::scalar(DType dtype, const Number& number) {
  if (number.symbolic) {
    Value* v = op(ops::kDimScalar, {}, {{"value", *number.symbolic}, {"dtype", DType::kI64}});
    return cast(v, dtype);
  }
  return context_.scalar(dtype, number);
}

Value* Call::as_tensor(const Operand& operand, DType dtype) {
  if (const Number* n = std::get_if<Number>(&operand)) return scalar(dtype, *n);
  return cast(std::get<Value*>(operand), dtype);
}

Value* Call::reshape(Value* v, Dims shape) {
  if (v == nullptr || v->shape() == shape) return v;
  return op(ops::kReshape, {v}, {{"shape", std::move(shape)}});
}

Value* Call::permute(Value* v, Ints dims) {
  bool identity = true;
  for (size_t d = 0; d < dims.size(); ++d)
    identity = identity && dims[d] == static_cast<int64_t>(d);
  if (v == nullptr || (identity && static_cast<int64_t>(dims.size()) == v->rank())) return v;
  return op(ops::kPermute, {v}, {{"dims", std::move(dims)}});
}

Value* Call::expand(Value* v, Dims size) {
  if (v == nullptr || v->shape() == size) return v;
  return op(ops::kExpand, {v}, {{"size", std::move(size)}});
}

Value* Call::slice(Value* v, int64_t dim, Dim start, Dim end, int64_t step) {
  if (v == nullptr || dim < 0 || dim >= v->rank()) return v;
  if (step == 1 && start == Dim(0) && end == v->dim(dim)) return v;
  return op(ops::kSlice, {v},
            {{"dim", dim}, {"start", std::move(start)}, {"end", std::move(end)}, {"step", step}});
}

View* Call::derive(View* parent, Value* value) {
  if (parent == nullptr || value == nullptr) return nullptr;
  return context_.aliases().derive(parent, value);
}

View* Call::reshape_view(View* v, Dims shape) {
  return derive(v, reshape(read(v), std::move(shape)));
}
View* Call::permute_view(View* v, Ints dims) {
  return derive(v, permute(read(v), std::move(dims)));
}
View* Call::slice_view(View* v, int64_t dim, Dim start, Dim end, int64_t step) {
  return derive(v, slice(read(v), dim, std::move(start), std::move(end), step));
}

}  // namespace downhaul::aten

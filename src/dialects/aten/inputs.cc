// Placeholders of the program: user inputs, weights, and the symbols of dynamic sizes.
#include "base/strings.h"
#include "dialects/aten/importer.h"

namespace downhaul::aten {
namespace {

// Writers state "no bound" as null, as 2^63-1 or as numbers near it.
constexpr int64_t kUnbounded = int64_t{1} << 53;

}  // namespace

Sym Importer::symbol(std::string_view name) {
  if (const auto it = symbols_.find(name); it != symbols_.end()) return Dim(it->second);
  if (name.starts_with('u') || name.starts_with('z')) {
    return Unknown{cat("'", printable(name), "' is known only at run time")};
  }
  auto symbol = std::make_shared<Symbol>();
  symbol->name = name;
  const auto range = program_.range_constraints.find(std::string(name));
  if (range != program_.range_constraints.end()) {
    symbol->min = std::max<int64_t>(range->second.min.value_or(0), 0);
    symbol->max = range->second.max.value_or(INT64_MAX);
  }
  if (symbol->max < symbol->min) {
    return Unknown{
        cat("'", printable(name), "' has the empty range [", symbol->min, ", ", symbol->max, "]")};
  }
  if (symbol->max == symbol->min) return Dim(symbol->min);
  symbols_.emplace(name, symbol);
  return Dim(SymbolPtr(symbol));
}

Result<Shape> Importer::shape_of_meta(const pt2::TensorMeta& meta) {
  Shape shape;
  for (size_t d = 0; d < meta.sizes.size(); ++d) {
    const pt2::Dim& size = meta.sizes[d];
    if (!size.symbolic) {
      if (!size.value || *size.value < 0) return invalid_file(cat("dimension ", d, " has no size"));
      shape.emplace_back(*size.value);
      continue;
    }
    if (size.expr == nullptr) {
      return unsupported(cat("dimension ", d, " has a dynamic size that is not understood"));
    }
    const Sym value = evaluate(*size.expr, [this](std::string_view n) { return symbol(n); });
    const Dim* dim = std::get_if<Dim>(&value);
    if (dim == nullptr) {
      return unsupported(
          cat("dimension ", d, " has the size ", pt2::to_string(*size.expr), ": ", str(value)));
    }
    shape.push_back(*dim);
  }
  return shape;
}

Status Importer::add_inputs() {
  const size_t count = program_.inputs.size();
  placeholder_views_.assign(count, nullptr);
  size_t user = 0;
  for (size_t i = 0; i < count; ++i) {
    const pt2::InputSpec& spec = program_.inputs[i];
    const auto* ref = std::get_if<pt2::TensorRef>(&spec.arg);
    if (ref != nullptr) placeholders_.emplace(ref->name, i);
    switch (spec.kind) {
      case pt2::InputSpec::Kind::kParameter:
      case pt2::InputSpec::Kind::kBuffer:
      case pt2::InputSpec::Kind::kTensorConstant:
        break;  // read when first used
      case pt2::InputSpec::Kind::kUserInput:
      case pt2::InputSpec::Kind::kConstantInput: {
        std::string name;
        if (user < program_.user_input_names.size()) name = program_.user_input_names[user];
        ++user;
        if (name.empty()) name = ref != nullptr ? ref->name : cat("input_", user - 1);
        if (auto s = add_user_input(i, name); !s.ok()) {
          return std::move(s).with_context(cat("input '", printable(name), "'"));
        }
        break;
      }
      case pt2::InputSpec::Kind::kCustomObject: {
        const auto* object = std::get_if<pt2::CustomObject>(&spec.arg);
        return unsupported(
            cat("the program holds the script object '", printable(spec.target), "'",
                object == nullptr ? std::string() : cat(" of class ", printable(object->class_fqn)),
                "; objects are not supported"));
      }
      case pt2::InputSpec::Kind::kToken:
        return unsupported("the program passes effect tokens, which are not supported");
    }
  }
  return {};
}

Status Importer::add_user_input(size_t index, const std::string& name) {
  const pt2::Argument& arg = program_.inputs[index].arg;
  const auto* ref = std::get_if<pt2::TensorRef>(&arg);
  if (ref == nullptr) {
    if (const auto* s = std::get_if<pt2::SymIntArg>(&arg); s != nullptr && !s->name.empty()) {
      return unsupported("a number that varies from call to call; pass it as a tensor");
    }
    if (!std::holds_alternative<pt2::None>(arg)) {
      result_.warnings.push_back(
          cat("input '", printable(name), "' is fixed at its value at export"));
    }
    return {};
  }
  const pt2::TensorMeta* m = meta(ref->name);
  if (m == nullptr) return invalid_file("its type is missing");
  const std::optional<DType> dtype = to_dtype(m->dtype);
  if (!dtype) return unsupported(cat("dtype ", pt2::name(m->dtype), " is not supported"));
  if (m->layout != pt2::Layout::kStrided && m->layout != pt2::Layout::kUnknown) {
    return unsupported("sparse tensors are not supported");
  }
  DH_ASSIGN(Shape shape, shape_of_meta(*m));
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d].is_static()) continue;
    if (shape[d].max() >= kUnbounded) {
      return unsupported(cat("dimension ", d, " (", shape[d].str(),
                             ") has no upper bound; export with dynamic_shapes that give "
                             "torch.export.Dim(name, max=N)"));
    }
    const SymbolPtr symbol = shape[d].as_symbol();
    if (symbol != nullptr && m->sizes[d].value) hints_.emplace(symbol->name, *m->sizes[d].value);
  }
  Value* value = graph_.add_input(name, {*dtype, std::move(shape)});
  View* view = aliases_.fresh(value);
  view->storage->source = StorageInfo::Source::kUserInput;
  view->storage->placeholder = static_cast<int>(index);
  placeholder_views_[index] = view;
  return {};
}

View* Importer::weight(size_t index, Builder& b) {
  if (placeholder_views_[index] != nullptr) return placeholder_views_[index];
  const pt2::InputSpec& spec = program_.inputs[index];
  const auto stored = model_.tensors.find(spec.target);
  if (stored == model_.tensors.end()) {
    b.fail(invalid_file(cat("weight '", printable(spec.target), "' is missing")));
    return nullptr;
  }
  auto tensor = weights_.tensor(spec.target, stored->second);
  if (!tensor.ok()) {
    b.fail(std::move(tensor).status());
    return nullptr;
  }
  const auto* ref = std::get_if<pt2::TensorRef>(&spec.arg);
  if (ref != nullptr) {
    if (auto s = check_type(ref->name, type_of(*tensor)); !s.ok()) {
      b.fail(std::move(s).with_context(cat("weight '", printable(spec.target), "'")));
      return nullptr;
    }
  }
  View* view = aliases_.fresh(graph_.add_constant(*std::move(tensor), spec.target));
  view->storage->source = StorageInfo::Source::kWeight;
  view->storage->placeholder = static_cast<int>(index);
  weight_storages_.emplace(view->value, view->storage);
  placeholder_views_[index] = view;
  return view;
}

}  // namespace downhaul::aten

#include <array>

#include "base/strings.h"
#include "formats/pt2/pt2.h"

namespace downhaul::pt2 {
namespace {

struct TypeRow {
  ScalarType type;
  std::string_view name;
  uint32_t bytes;
};
constexpr TypeRow kTypes[] = {
    {ScalarType::kUint8, "uint8", 1},
    {ScalarType::kInt8, "int8", 1},
    {ScalarType::kInt16, "int16", 2},
    {ScalarType::kInt32, "int32", 4},
    {ScalarType::kInt64, "int64", 8},
    {ScalarType::kFloat16, "float16", 2},
    {ScalarType::kFloat32, "float32", 4},
    {ScalarType::kFloat64, "float64", 8},
    {ScalarType::kComplex32, "complex32", 4},
    {ScalarType::kComplex64, "complex64", 8},
    {ScalarType::kComplex128, "complex128", 16},
    {ScalarType::kBool, "bool", 1},
    {ScalarType::kBfloat16, "bfloat16", 2},
    {ScalarType::kUint16, "uint16", 2},
    {ScalarType::kFloat8E4m3fn, "float8_e4m3fn", 1},
    {ScalarType::kFloat8E5m2, "float8_e5m2", 1},
    {ScalarType::kFloat8E4m3fnuz, "float8_e4m3fnuz", 1},
    {ScalarType::kFloat8E5m2fnuz, "float8_e5m2fnuz", 1},
    {ScalarType::kFloat8E8m0fnu, "float8_e8m0fnu", 1},
    {ScalarType::kUint32, "uint32", 4},
    {ScalarType::kUint64, "uint64", 8},
};

// In the order of the variant.
constexpr std::string_view kAlternatives[] = {
    "none",      "tensor",      "tensors",       "optional_tensors", "nested_tensors",
    "bool",      "int",         "float",         "string",           "bools",
    "ints",      "floats",      "strings",       "int_lists",        "float_lists",
    "sym_int",   "sym_ints",    "sym_float",     "sym_floats",       "sym_bool",
    "sym_bools", "scalar_type", "memory_format", "layout",           "device",
    "graph",     "custom_obj",  "operator",      "complex",          "string_to_argument",
    "unknown",
};
static_assert(std::size(kAlternatives) == std::variant_size_v<Argument>);

}  // namespace

std::string_view name(ScalarType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.name;
  }
  return "unknown";
}

uint32_t item_size(ScalarType type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.bytes;
  }
  return 0;
}

std::string_view alternative_name(const Argument& argument) {
  return kAlternatives[argument.index()];
}

const Argument* Node::find(std::string_view argument) const {
  for (const NamedArgument& input : inputs) {
    if (input.name == argument) return &input.value;
  }
  return nullptr;
}

std::vector<ModuleScope> parse_module_stack(std::string_view text) {
  std::vector<ModuleScope> scopes;
  if (text.empty()) return scopes;
  for (const std::string_view scope : split(text, ';')) {
    const size_t fqn = scope.find(',');
    const size_t type = scope.rfind(',');
    // Nodes outside of any module carry a marker in place of the stack.
    if (fqn == type || scope.starts_with("_empty_nn_module_stack")) continue;
    scopes.push_back(
        {std::string(scope.substr(fqn + 1, type - fqn - 1)), std::string(scope.substr(type + 1))});
  }
  return scopes;
}

Result<const Model*> Archive::model(std::string_view name) const {
  if (name.empty() && models.size() == 1) return &models.front();
  std::vector<std::string> names;
  for (const Model& model : models) {
    if (model.program.name == name) return &model;
    names.push_back(printable(model.program.name));
  }
  if (name.empty()) {
    return invalid_argument(
        cat("the archive holds several models, name one of: ", join(names, ", ")));
  }
  return invalid_argument(
      cat("the archive has no model '", printable(name), "', it has: ", join(names, ", ")));
}

}  // namespace downhaul::pt2

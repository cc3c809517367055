#include "dialects/aten/table.h"

#include <charconv>
#include <unordered_map>

#include "base/strings.h"
#include "dialects/aten/raise.h"

namespace downhaul::aten {
namespace {

// dtype, layout, device and pin_memory, keyword arguments of most functions that create tensors.
#define DH_OPTIONS ", dtype=None, layout=None, device=None, pin_memory=None"

constexpr Row kRows[] = {
#define DH_ATEN_SAME(schema, spelling) {schema, raise_spelled, spelling, false},
#define DH_ATEN(schema, function, spelling) {schema, function, spelling, false},
#define DH_ATEN_VIEW(schema, function) {schema, function, "", true},
#include "dialects/aten/table.inc"
#undef DH_ATEN_SAME
#undef DH_ATEN
#undef DH_ATEN_VIEW
};

std::string_view overload_of(const Row& row) {
  const std::string_view schema = row.schema;
  return schema.substr(0, schema.find('('));
}

pt2::Argument parse_default(std::string_view text) {
  if (text == "None") return pt2::None{};
  if (text == "True") return true;
  if (text == "False") return false;
  if (text.front() == '"') return std::string(text.substr(1, text.size() - 2));
  if (text.front() == '[') {
    std::vector<int64_t> list;
    std::string_view inner = text.substr(1, text.size() - 2);
    while (!inner.empty()) {
      int64_t n = 0;
      const auto r = std::from_chars(inner.data(), inner.data() + inner.size(), n);
      DH_CHECK(r.ec == std::errc());
      list.push_back(n);
      inner.remove_prefix(static_cast<size_t>(r.ptr - inner.data()));
      if (!inner.empty()) inner.remove_prefix(1);
    }
    return list;
  }
  const char* end = text.data() + text.size();
  int64_t n = 0;
  if (const auto r = std::from_chars(text.data(), end, n); r.ptr == end) return n;
  double f = 0;
  const auto r = std::from_chars(text.data(), end, f);
  DH_CHECK(r.ptr == end);
  return f;
}

// Pieces between commas, brackets kept whole.
std::vector<std::string_view> pieces(std::string_view text) {
  std::vector<std::string_view> result;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      const std::string_view piece = trim(text.substr(begin, i - begin));
      if (!piece.empty()) result.push_back(piece);
      begin = i + 1;
    }
  }
  return result;
}

std::string_view inside_parentheses(std::string_view text) {
  const size_t open = text.find('(');
  if (open == std::string_view::npos) return {};
  return text.substr(open + 1, text.rfind(')') - open - 1);
}

}  // namespace

const Parameter* ParsedRow::find(std::string_view name) const {
  for (const Parameter& p : parameters) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

const Row* find_row(std::string_view overload) {
  static const auto* const index = [] {
    auto* map = new std::unordered_map<std::string_view, const Row*>;
    map->reserve(std::size(kRows));
    for (const Row& row : kRows) DH_CHECK(map->emplace(overload_of(row), &row).second);
    return map;
  }();
  const auto it = index->find(overload);
  return it == index->end() ? nullptr : it->second;
}

ParsedRow parse_row(const Row& row) {
  ParsedRow parsed;
  parsed.row = &row;
  parsed.overload = overload_of(row);
  for (const std::string_view piece : pieces(inside_parentheses(row.schema))) {
    Parameter& parameter = parsed.parameters.emplace_back();
    const size_t equals = piece.find('=');
    parameter.name = piece.substr(0, equals);
    if (equals == std::string_view::npos) continue;
    parameter.has_default = true;
    parameter.default_value = parse_default(piece.substr(equals + 1));
  }
  const std::string_view spelling = row.spelling;
  if (spelling.empty()) return parsed;
  parsed.op = find_op(spelling.substr(0, spelling.find('(')));
  DH_CHECK(parsed.op != nullptr);
  for (std::string_view piece : pieces(inside_parentheses(spelling))) {
    SpelledArgument& argument = parsed.spelled.emplace_back();
    constexpr std::string_view kFloatPrefix = "float ";
    argument.as_float = piece.starts_with(kFloatPrefix);
    if (argument.as_float) piece.remove_prefix(kFloatPrefix.size());
    argument.name = piece;
    DH_CHECK(parsed.find(piece) != nullptr);
  }
  return parsed;
}

std::vector<std::string_view> all_overloads() {
  std::vector<std::string_view> names;
  for (const Row& row : kRows) names.push_back(overload_of(row));
  return names;
}

Out raise_spelled(Call& c) {
  const Schema& schema = schema_of(c.row_op());
  DH_CHECK(c.row().spelled.size() <= schema.args.size());
  std::vector<Value*> operands;
  NamedAttrs attrs;
  for (size_t n = 0; n < schema.args.size(); ++n) {
    const SchemaArg& arg = schema.args[n];
    if (n >= c.row().spelled.size()) {
      if (arg.kind == ArgKind::kTensor) operands.push_back(nullptr);
      continue;
    }
    const SpelledArgument& spelled = c.row().spelled[n];
    if (arg.kind == ArgKind::kTensor) {
      Value* v = c.maybe_tensor(spelled.name);
      if (spelled.as_float && !is_float(dtype_of(v))) v = c.cast(v, DType::kF32);
      operands.push_back(v);
      continue;
    }
    if (!c.has(spelled.name)) {
      attrs.emplace_back(arg.name, std::monostate{});
      continue;
    }
    switch (arg.kind) {
      case ArgKind::kInt:
        attrs.emplace_back(arg.name, c.i(spelled.name));
        break;
      case ArgKind::kInts:
        attrs.emplace_back(arg.name, c.ints(spelled.name));
        break;
      case ArgKind::kFloat:
        attrs.emplace_back(arg.name, c.f(spelled.name));
        break;
      case ArgKind::kBool:
        attrs.emplace_back(arg.name, c.b(spelled.name));
        break;
      case ArgKind::kString:
        attrs.emplace_back(arg.name, c.s(spelled.name));
        break;
      default:
        DH_CHECK(false && "an argument of this kind is not spelled one to one");
    }
  }
  if (!c.ok()) return {};
  if (schema.num_results == 1) return c.op(c.row_op(), std::move(operands), attrs);
  return c.op_multi(c.row_op(), std::move(operands), attrs);
}

}  // namespace downhaul::aten

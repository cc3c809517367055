#include "ir/op.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>

#include "base/strings.h"

namespace downhaul {
namespace {

struct KindName {
  std::string_view text;
  ArgKind kind;
};
constexpr std::array<KindName, 11> kKindNames = {{{"Tensor", ArgKind::kTensor},
                                                  {"Tensor[]", ArgKind::kTensorList},
                                                  {"int", ArgKind::kInt},
                                                  {"int[]", ArgKind::kInts},
                                                  {"dim", ArgKind::kDim},
                                                  {"dim[]", ArgKind::kDims},
                                                  {"float", ArgKind::kFloat},
                                                  {"float[]", ArgKind::kFloats},
                                                  {"bool", ArgKind::kBool},
                                                  {"str", ArgKind::kString},
                                                  {"dtype", ArgKind::kDType}}};

template <typename T>
T number(std::string_view text) {
  T value{};
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  DH_CHECK(r.ec == std::errc() && r.ptr == text.data() + text.size());
  return value;
}

Attr parse_default(ArgKind kind, std::string_view text) {
  if (text == "None") return std::monostate();
  switch (kind) {
    case ArgKind::kInt:
      return number<int64_t>(text);
    case ArgKind::kDim:
      return Dim(number<int64_t>(text));
    case ArgKind::kFloat:
      return number<double>(text);
    case ArgKind::kBool:
      return text == "True";
    case ArgKind::kString:
      DH_CHECK(text.size() >= 2 && text.front() == '"' && text.back() == '"');
      return std::string(text.substr(1, text.size() - 2));
    case ArgKind::kDType:
      return parse_dtype(text).value();
    case ArgKind::kInts: {
      DH_CHECK(text.size() >= 2 && text.front() == '[' && text.back() == ']');
      Ints out;
      const std::string_view inner = text.substr(1, text.size() - 2);
      if (inner.empty()) return out;
      for (const std::string_view part : split(inner, ','))
        out.push_back(number<int64_t>(trim(part)));
      return out;
    }
    default:
      DH_CHECK(false && "no default for this kind of argument");
  }
  return std::monostate();
}

/// Splits at commas outside brackets.
std::vector<std::string_view> split_arguments(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      const std::string_view part = trim(text.substr(begin, i - begin));
      if (!part.empty()) parts.push_back(part);
      begin = i + 1;
    } else if (text[i] == '[') {
      ++depth;
    } else if (text[i] == ']') {
      --depth;
    }
  }
  return parts;
}

Schema parse_schema(const OpDef& op) {
  const std::string_view text = op.schema;
  const size_t open = text.find('(');
  const size_t close = text.rfind(") ->");
  DH_CHECK(open != std::string_view::npos && close != std::string_view::npos);
  DH_CHECK(trim(text.substr(0, open)) == op.name);
  Schema schema;
  for (const std::string_view part : split_arguments(text.substr(open + 1, close - open - 1))) {
    SchemaArg arg;
    const size_t space = part.find(' ');
    DH_CHECK(space != std::string_view::npos);
    std::string type(part.substr(0, space));
    // "Tensor?[]" is a list whose members may be absent; "int?" is optional.
    if (const size_t mark = type.find('?'); mark != std::string::npos) {
      arg.optional = true;
      type.erase(mark, 1);
    }
    const auto kind = std::find_if(kKindNames.begin(), kKindNames.end(),
                                   [&](const KindName& k) { return k.text == type; });
    DH_CHECK(kind != kKindNames.end());
    arg.kind = kind->kind;
    const std::string_view rest = trim(part.substr(space + 1));
    const size_t equals = rest.find('=');
    arg.name = std::string(trim(rest.substr(0, equals)));
    const bool tensor = arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorList;
    if (equals != std::string_view::npos) {
      arg.has_default = true;
      if (!tensor) arg.default_value = parse_default(arg.kind, trim(rest.substr(equals + 1)));
    } else if (arg.optional) {
      arg.has_default = true;  // absent
    }
    if (arg.kind == ArgKind::kTensorList) {
      DH_CHECK(!schema.has_tensor_list);
      schema.has_tensor_list = true;
      arg.index = schema.num_operands;
    } else if (tensor) {
      DH_CHECK(!schema.has_tensor_list);
      arg.index = schema.num_operands++;
    } else {
      arg.index = schema.num_attrs++;
    }
    schema.args.push_back(std::move(arg));
  }
  const std::string_view results = text.substr(close);
  for (size_t at = results.find("Tensor"); at != std::string_view::npos;
       at = results.find("Tensor", at + 1)) {
    ++schema.num_results;
  }
  DH_CHECK(schema.num_results > 0);
  return schema;
}

}  // namespace

bool operator==(const Attr& a, const Attr& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, Dims>) {
          const Dims& y = std::get<Dims>(b);
          return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin());
        } else {
          return x == std::get<T>(b);
        }
      },
      a);
}

const SchemaArg* Schema::find(std::string_view name) const {
  for (const SchemaArg& arg : args) {
    if (arg.name == name) return &arg;
  }
  return nullptr;
}

const Schema& schema_of(const OpDef& op) {
  static std::mutex mutex;
  static auto& cache = *new std::map<const OpDef*, std::unique_ptr<Schema>>();
  const std::lock_guard<std::mutex> lock(mutex);
  auto& slot = cache[&op];
  if (!slot) slot = std::make_unique<Schema>(parse_schema(op));
  return *slot;
}

}  // namespace downhaul

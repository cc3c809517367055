#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/strings.h"
#include "ir/text.h"

namespace downhaul {
namespace {

std::string number(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return cat(v);
}

/// FNV-1a: tells constants apart in a printed graph, nothing more.
uint64_t digest(Bytes bytes) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const uint8_t b : bytes) h = (h ^ b) * 0x100000001b3u;
  return h;
}

std::string hex(uint64_t v) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out(16, '0');
  for (size_t i = out.size(); i-- > 0; v >>= 4) out[i] = kDigits[v & 15];
  return out;
}

std::string element(const Tensor& t, int64_t i) {
  return is_float(t.dtype()) ? number(t.at(i)) : cat(t.int_at(i));
}

std::string constant_data(const Tensor& t, const PrintOptions& options) {
  const int64_t n = t.num_elements();
  if (n > options.max_constant_values) {
    // Large constants may live in a mapped file: printing must not read all of it.
    constexpr uint64_t kMaxDigestBytes = 1u << 20;
    if (t.num_bytes() > kMaxDigestBytes) return cat("data ", t.num_bytes(), " bytes");
    if (n > 1 && t.is_splat()) return cat("splat ", element(t, 0));
    return cat("data ", hex(digest(t.bytes())));
  }
  if (n > 1 && t.is_splat()) return cat("splat ", element(t, 0));
  std::vector<std::string> parts;
  for (int64_t i = 0; i < n; ++i) parts.push_back(element(t, i));
  return cat("[", join(parts, ", "), "]");
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out + "\"";
}

bool is_default(const SchemaArg& arg, const Attr& attr) {
  return arg.has_default && attr == arg.default_value;
}

}  // namespace

std::string print(const Attr& attr) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "none";
        } else if constexpr (std::is_same_v<T, double>) {
          // A float stays recognisable as one: 1.0, not 1.
          std::string text = number(v);
          const bool integral = text.find_first_not_of("-0123456789") == std::string::npos;
          return integral ? text + ".0" : text;
        } else if constexpr (std::is_same_v<T, std::string>) {
          return quoted(v);
        } else if constexpr (std::is_same_v<T, DType>) {
          return std::string(name(v));
        } else if constexpr (std::is_same_v<T, Dim>) {
          return v.str();
        } else if constexpr (std::is_same_v<T, Dims>) {
          return str(v);
        } else if constexpr (std::is_same_v<T, Ints>) {
          return cat("[", join(v, ","), "]");
        } else if constexpr (std::is_same_v<T, Floats>) {
          std::vector<std::string> parts;
          for (const double f : v) parts.push_back(number(f));
          return cat("[", join(parts, ","), "]");
        } else {
          return cat(v);
        }
      },
      attr);
}

std::string print(const Node& node, const PrintOptions& options) {
  std::vector<std::string> results;
  for (int i = 0; i < node.num_results(); ++i) {
    const Value* r = node.result(i);
    results.push_back(options.types ? cat("%", r->name(), ": ", r->type().str())
                                    : cat("%", r->name()));
  }
  std::vector<std::string> args;
  for (const Value* v : node.operands()) args.push_back(v ? cat("%", v->name()) : "none");
  // Absent optional operands at the end say nothing, unless a list follows.
  if (!node.schema().has_tensor_list) {
    while (!args.empty() && args.back() == "none") args.pop_back();
  }
  for (const SchemaArg& arg : node.schema().args) {
    if (arg.kind == ArgKind::kTensor || arg.kind == ArgKind::kTensorList) continue;
    const Attr& attr = node.attrs()[static_cast<size_t>(arg.index)];
    if (!is_default(arg, attr)) args.push_back(cat(arg.name, "=", print(attr)));
  }
  std::string out = cat(join(results, ", "), " = ", node.op_name(), "(", join(args, ", "), ")");
  if (options.origins && !node.origins().empty()) {
    std::vector<std::string> names;
    for (const int o : node.origins()) {
      names.push_back(node.graph().origins[static_cast<size_t>(o)].name);
    }
    out += cat("  # from ", join(names, " "));
  }
  return out;
}

std::string print(const Graph& graph, const PrintOptions& options) {
  std::string out = cat("graph ", graph.name, " {\n");
  for (const auto& [name, symbol] : graph.symbols()) {
    out += cat("  symbol ", name, " in [", symbol->min, ", ", symbol->max, "]\n");
  }
  for (const Value* v : graph.inputs())
    out += cat("  input %", v->name(), ": ", v->type().str(), "\n");
  for (const Value* v : graph.states()) {
    out += cat("  state %", v->name(), ": ", v->type().str(), " = ",
               constant_data(v->constant(), options), "\n");
  }
  for (const Value* v : graph.constants()) {
    out += cat("  const %", v->name(), ": ", v->type().str(), " = ",
               constant_data(v->constant(), options), "\n");
  }
  for (const auto& node : graph.nodes()) out += cat("  ", print(*node, options), "\n");
  std::vector<std::string> outputs;
  for (const Output& o : graph.outputs()) {
    outputs.push_back(cat("%", o.value->name(), " as ", quoted(o.name)));
  }
  out += cat("  return ", join(outputs, ", "), "\n");
  for (const StateUpdate& u : graph.state_updates()) {
    out += cat("  update %", u.state->name(), " = %", u.value->name(), "\n");
  }
  return out + "}\n";
}

}  // namespace downhaul

#include <cctype>
#include <charconv>
#include <map>
#include <memory>
#include <mutex>

#include "base/strings.h"
#include "dialects/edge/table.h"

namespace downhaul::edge {
namespace {

/// One argument of a spelling.
struct Token {
  std::string name;       // argument of the operator, or empty for a literal
  bool scalar = false;    // `scalar name`
  bool anything = false;  // `?literal`
  bool demanded = false;  // `name=literal`
  Arg literal;
};

struct Parsed {
  std::string name;
  std::vector<Token> args;
};

Arg parse_literal(std::string_view text) {
  if (text == "None") return {};
  if (text == "true") return flag(true);
  if (text == "false") return flag(false);
  if (text.front() == '"') return Arg(std::string(text.substr(1, text.size() - 2)));
  if (text.front() == '[') {
    Dims items;
    const std::string_view inner = text.substr(1, text.size() - 2);
    if (!inner.empty())
      for (std::string_view item : split(inner, ' '))
        items.push_back(std::get<Dim>(parse_literal(item)));
    return Arg(std::move(items));
  }
  const char* end = text.data() + text.size();
  if (text.find('.') != std::string_view::npos) {
    double v = 0;
    DH_CHECK(std::from_chars(text.data(), end, v).ptr == end);
    return number(v);
  }
  int64_t v = 0;
  DH_CHECK(std::from_chars(text.data(), end, v).ptr == end);
  return integer(v);
}

bool is_literal(std::string_view text) {
  return text == "None" || text == "true" || text == "false" ||
         !(std::isalpha(static_cast<unsigned char>(text.front())) != 0);
}

Parsed parse(const char* spelling) {
  Parsed out;
  const std::string_view text(spelling);
  const size_t open = text.find('(');
  DH_CHECK(open != std::string_view::npos && text.back() == ')');
  out.name = text.substr(0, open);
  const std::string_view inner = text.substr(open + 1, text.size() - open - 2);
  if (inner.empty()) return out;
  for (std::string_view piece : split(inner, ',')) {
    piece = trim(piece);
    Token t;
    if (const size_t eq = piece.find('='); eq != std::string_view::npos) {
      t.name = piece.substr(0, eq);
      t.literal = parse_literal(piece.substr(eq + 1));
      t.demanded = true;
      out.args.push_back(std::move(t));
      continue;
    }
    if (piece.starts_with("scalar ")) {
      t.scalar = true;
      piece.remove_prefix(7);
    }
    if (piece.front() == '?') {
      t.anything = true;
      piece.remove_prefix(1);
    }
    if (is_literal(piece)) {
      t.literal = parse_literal(piece);
    } else {
      t.name = piece;
    }
    out.args.push_back(std::move(t));
  }
  return out;
}

struct ParsedRow {
  Parsed op;      // args: only those with a demanded value (name=literal)
  Parsed kernel;  // args in schema order
  const OpDef* def;
};

const ParsedRow& parsed(const Row& row) {
  static std::mutex mutex;
  static std::map<const Row*, std::unique_ptr<ParsedRow>> cache;
  const std::lock_guard lock(mutex);
  std::unique_ptr<ParsedRow>& entry = cache[&row];
  if (entry == nullptr) {
    entry = std::make_unique<ParsedRow>();
    Parsed op = parse(row.op);
    entry->op.name = op.name;
    for (Token& t : op.args)
      if (t.demanded) entry->op.args.push_back(std::move(t));
    entry->kernel = parse(row.kernel);
    entry->def = find_op(entry->op.name);
    DH_CHECK(entry->def != nullptr);
  }
  return *entry;
}

Arg arg_of(const Attr& attr) {
  struct Visitor {
    Arg operator()(std::monostate) const { return {}; }
    Arg operator()(bool v) const { return flag(v); }
    Arg operator()(int64_t v) const { return integer(v); }
    Arg operator()(double v) const { return number(v); }
    Arg operator()(const std::string& v) const { return Arg(v); }
    Arg operator()(DType) const { return {}; }
    Arg operator()(const Dim& v) const { return integer(v); }
    Arg operator()(const Dims& v) const { return dims(v); }
    Arg operator()(const Ints& v) const { return ints(v); }
    Arg operator()(const Floats& v) const { return Arg(v); }
  };
  return std::visit(Visitor{}, attr);
}

/// Equal as numbers where both are numbers.
bool same(const Arg& a, const Arg& b) {
  const auto value = [](const Arg& x) -> std::optional<double> {
    if (const auto* d = std::get_if<Dim>(&x); d != nullptr && d->is_static())
      return static_cast<double>(d->value());
    if (const auto* f = std::get_if<double>(&x)) return *f;
    if (const auto* f = std::get_if<bool>(&x)) return *f ? 1 : 0;
    return std::nullopt;
  };
  const auto x = value(a), y = value(b);
  if (x.has_value() && y.has_value()) return *x == *y;
  if (a.index() != b.index()) return false;
  if (std::holds_alternative<std::monostate>(a)) return true;
  if (const auto* d = std::get_if<Dims>(&a)) return *d == std::get<Dims>(b);
  if (const auto* s = std::get_if<std::string>(&a)) return *s == std::get<std::string>(b);
  return false;
}

std::string describe(const Arg& a) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "None"; }
    std::string operator()(Value* v) const { return "tensor " + v->type().str(); }
    std::string operator()(const Dim& v) const { return v.str(); }
    std::string operator()(double v) const { return cat(v); }
    std::string operator()(bool v) const { return cat(v); }
    std::string operator()(const std::string& v) const { return '"' + printable(v) + '"'; }
    std::string operator()(const Dims& v) const { return str(v); }
    std::string operator()(const Floats&) const { return "a list of floats"; }
    std::string operator()(const TensorList&) const { return "a list of tensors"; }
  };
  return std::visit(Visitor{}, a);
}

/// The attribute of `arg`'s kind that argument i of the call stands for.
Attr attr_from(Raising& r, size_t i, const SchemaArg& arg) {
  if (arg.optional && r.is_none(i)) return {};
  switch (arg.kind) {
    case ArgKind::kInt:
      return r.integer(i);
    case ArgKind::kInts:
      return r.ints(i);
    case ArgKind::kDim:
      return r.dim(i);
    case ArgKind::kDims:
      return r.dims(i);
    case ArgKind::kFloat:
      return r.number(i);
    case ArgKind::kFloats:
      return r.floats(i);
    case ArgKind::kBool:
      return r.flag(i);
    case ArgKind::kString:
      return r.text(i);
    case ArgKind::kTensor:
    case ArgKind::kTensorList:
    case ArgKind::kDType:
      break;
  }
  DH_CHECK(false);
  return {};
}

Attr attr_from_literal(const Arg& literal, const SchemaArg& arg) {
  if (std::holds_alternative<std::monostate>(literal)) return {};
  switch (arg.kind) {
    case ArgKind::kInt:
      return std::get<Dim>(literal).value();
    case ArgKind::kFloat:
      return std::get<double>(literal);
    case ArgKind::kBool:
      return std::get<bool>(literal);
    case ArgKind::kString:
      return std::get<std::string>(literal);
    default:
      break;
  }
  DH_CHECK(false);
  return {};
}

}  // namespace

Result<KernelCall> emit_text(const Row& row, const Node& node) {
  const ParsedRow& p = parsed(row);
  for (const Token& t : p.op.args)
    if (!same(arg_of(node.attr(t.name)), t.literal))
      return no_kernel(node, cat(t.name, " is ", describe(arg_of(node.attr(t.name))), ", ",
                                 p.kernel.name, " needs ", describe(t.literal)));
  std::vector<Arg> args;
  for (const Token& t : p.kernel.args) {
    if (t.name.empty()) {
      args.push_back(t.literal);
      continue;
    }
    const SchemaArg* arg = node.schema().find(t.name);
    DH_CHECK(arg != nullptr);
    if (t.scalar) {
      Arg value;
      if (!is_scalar_constant(node.operand(t.name), &value))
        return no_kernel(node, cat(t.name, " is no constant number"));
      args.push_back(std::move(value));
    } else if (arg->kind == ArgKind::kTensor) {
      args.push_back(tensor(node.operand(t.name)));
    } else if (arg->kind == ArgKind::kTensorList) {
      args.push_back(Arg(TensorList{.values = node.list(), .optional = arg->optional}));
    } else {
      args.push_back(arg_of(node.attr(t.name)));
    }
  }
  return call_of(node, p.kernel.name, std::move(args));
}

Values raise_text(const Row& row, Raising& r) {
  const ParsedRow& p = parsed(row);
  const Schema& schema = schema_of(*p.def);
  if (r.size() != p.kernel.args.size()) {
    r.refuse(cat(r.size(), " arguments, expected ", p.kernel.args.size()));
    return {};
  }
  std::vector<Value*> operands(static_cast<size_t>(schema.num_operands));
  std::vector<Value*> members;
  NamedAttrs attrs;
  struct Pending {
    size_t argument;
    int operand;
  };
  std::vector<Pending> scalars;
  for (size_t i = 0; i < p.kernel.args.size() && r.ok(); ++i) {
    const Token& t = p.kernel.args[i];
    if (t.name.empty()) {
      if (!t.anything && !same(r.call.args[i], t.literal))
        r.refuse(cat("argument ", i, " is ", describe(r.call.args[i]), ", expected ",
                     describe(t.literal)));
      continue;
    }
    const SchemaArg* arg = schema.find(t.name);
    DH_CHECK(arg != nullptr);
    if (t.scalar) {
      scalars.push_back({i, arg->index});
    } else if (arg->kind == ArgKind::kTensor) {
      operands[static_cast<size_t>(arg->index)] = arg->optional ? r.tensor_or_null(i) : r.tensor(i);
    } else if (arg->kind == ArgKind::kTensorList) {
      members = r.tensors(i);
    } else {
      attrs.emplace_back(arg->name, attr_from(r, i, *arg));
    }
  }
  if (!r.ok()) return {};
  for (const Token& t : p.op.args)
    attrs.emplace_back(t.name, attr_from_literal(t.literal, *schema.find(t.name)));

  // A number takes the type of the tensor beside it, unless it is a float beside integers.
  for (const Pending& s : scalars) {
    Value* beside = nullptr;
    for (Value* v : operands)
      if (v != nullptr) beside = v;
    if (beside == nullptr) {
      r.refuse("no tensor operand");
      return {};
    }
    DType dtype = beside->dtype();
    if (std::holds_alternative<double>(r.call.args[s.argument]) && !is_float(dtype))
      dtype = row.promote == Promote::kToOut ? r.out().dtype : DType::kF32;
    operands[static_cast<size_t>(s.operand)] = r.scalar(s.argument, dtype);
  }
  if (row.promote == Promote::kToOut) {
    for (const SchemaArg& arg : schema.args) {
      if (arg.kind != ArgKind::kTensor) continue;
      Value*& v = operands[static_cast<size_t>(arg.index)];
      if (v != nullptr) v = r.cast(v, arg.name == "condition" ? DType::kBool : r.out().dtype);
    }
  } else if (row.promote == Promote::kTogether && operands.size() >= 2) {
    const DType common = promote(operands[0]->dtype(), operands[1]->dtype());
    operands[0] = r.cast(operands[0], common);
    operands[1] = r.cast(operands[1], common);
  }
  operands.insert(operands.end(), members.begin(), members.end());
  if (!r.ok()) return {};
  return schema.num_results == 1 ? Values{r.b.op(*p.def, std::move(operands), attrs)}
                                 : r.b.op_multi(*p.def, std::move(operands), attrs);
}

}  // namespace downhaul::edge

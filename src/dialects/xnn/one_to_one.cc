#include "dialects/xnn/one_to_one.h"

#include <algorithm>

#include "base/strings.h"
#include "ops/ops.h"

namespace downhaul::xnn {
namespace {

struct ParsedCall {
  std::string name;
  std::vector<std::string> operands;
  std::vector<OneToOneRow::Literal> attrs;
};

/// "name(a, b, key=value)"
ParsedCall parse_call(std::string_view text) {
  ParsedCall call;
  const size_t open = text.find('(');
  DH_CHECK(open != std::string_view::npos && text.back() == ')');
  call.name = std::string(text.substr(0, open));
  for (std::string_view arg : split(text.substr(open + 1, text.size() - open - 2), ',')) {
    arg = trim(arg);
    const size_t equals = arg.find('=');
    if (equals == std::string_view::npos) {
      call.operands.emplace_back(arg);
    } else {
      call.attrs.push_back(
          {std::string(arg.substr(0, equals)), std::string(arg.substr(equals + 1))});
    }
  }
  return call;
}

OneToOneRow parse_row(const OneToOne& text) {
  const ParsedCall ir = parse_call(text.ir);
  const ParsedCall node = parse_call(text.node);
  OneToOneRow row;
  row.text = &text;
  row.op = find_op(ir.name);
  DH_CHECK(row.op != nullptr);
  const std::optional<XnnNodeKind> kind = parse_xnn_node_kind(node.name);
  DH_CHECK(kind.has_value());
  row.kind = *kind;
  row.ir_operands = ir.operands;
  row.node_operands = node.operands;
  for (const OneToOneRow::Literal& attr : ir.attrs) {
    if (attr.value == "$alpha") {
      DH_CHECK(node.attrs.size() == 1 && node.attrs[0].value == "$alpha");
      row.alpha = attr.attr;
    } else {
      row.literals.push_back(attr);
    }
  }
  return row;
}

size_t position(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

bool has_literal(const Node& node, const OneToOneRow::Literal& literal) {
  if (literal.value == "last") {
    const int64_t rank = node.operand(0)->rank();
    return rank > 0 && node.axis(literal.attr, rank) == rank - 1;
  }
  return node.s(literal.attr) == literal.value;
}

}  // namespace

const std::vector<OneToOneRow>& one_to_one_rows() {
  static const std::vector<OneToOneRow> rows = [] {
    std::vector<OneToOneRow> parsed;
    for (const OneToOne& text : one_to_one_table()) parsed.push_back(parse_row(text));
    return parsed;
  }();
  return rows;
}

std::string refuse_row(const OneToOneRow& row, const Node& node) {
  for (size_t i = 0; i < row.ir_operands.size(); ++i) {
    const size_t first = position(row.ir_operands, row.ir_operands[i]);
    if (node.operands()[i] != node.operands()[first]) return "operands differ";
  }
  for (const OneToOneRow::Literal& literal : row.literals) {
    if (!has_literal(node, literal)) return row.text->reason;
  }
  if (row.text->guard != nullptr && !row.text->guard(node)) return row.text->reason;
  return "";
}

void emit_row(const OneToOneRow& row, const Node& node, PayloadBuilder& out) {
  std::vector<uint32_t> inputs;
  for (const std::string& name : row.node_operands) {
    inputs.push_back(out.use(node.operands()[position(row.ir_operands, name)]));
  }
  XnnParams params;
  if (!row.alpha.empty()) params = XnnAlpha{static_cast<float>(node.f(row.alpha))};
  out.add(row.kind, std::move(inputs), out.define(node.result()), std::move(params));
}

Result<Value*> raise_row(const OneToOneRow& row, RaiseCall& call) {
  std::vector<Value*> operands;
  for (const std::string& name : row.ir_operands) {
    DH_ASSIGN(Value * v, call.input(position(row.node_operands, name)));
    operands.push_back(v);
  }
  NamedAttrs attrs;
  for (const OneToOneRow::Literal& literal : row.literals) {
    if (literal.value == "last") {
      attrs.push_back({literal.attr, int64_t{-1}});
    } else {
      attrs.push_back({literal.attr, literal.value});
    }
  }
  if (!row.alpha.empty()) {
    attrs.push_back({row.alpha, static_cast<double>(call.params<XnnAlpha>().alpha)});
  }
  return call.b.op(*row.op, std::move(operands), attrs);
}

}  // namespace downhaul::xnn

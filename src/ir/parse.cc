#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "base/strings.h"
#include "ir/text.h"

namespace downhaul {
namespace {

/// xorshift64*: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  uint64_t bits() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  /// Uniform in [-1, 1), on a grid that every float type but half holds exactly.
  double unit() { return static_cast<double>(bits() >> 48) * 0x1p-15 - 1.0; }

 private:
  uint64_t state_;
};

class Parser {
 public:
  Parser(std::string_view text, OpLookup lookup) : text_(text), lookup_(lookup) {}

  Result<std::unique_ptr<Graph>> parse() {
    Status status = graph();
    if (!status.ok()) return std::move(status).with_context(cat("line ", line_));
    return std::move(graph_);
  }

 private:
  // --- words
  void skip() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '\n' || c == ' ' || c == '\t' || c == '\r') {
        line_ += c == '\n';
        ++at_;
      } else {
        return;
      }
    }
  }
  bool at_end() {
    skip();
    return at_ == text_.size();
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool eat(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  Status expect(std::string_view token) {
    if (eat(token)) return {};
    return invalid_graph(cat("expected '", token, "', found '", printable(rest(), 20), "'"));
  }
  std::string_view rest() {
    skip();
    return text_.substr(at_);
  }
  static bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
  }
  std::string_view word() {
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  bool eat_word(std::string_view expected) {
    skip();
    const size_t saved = at_;
    if (word() == expected) return true;
    at_ = saved;
    return false;
  }
  Result<std::string> value_name() {
    DH_TRY(expect("%"));
    std::string name(word());
    if (name.empty()) return invalid_graph("expected a name after '%'");
    return name;
  }
  Result<std::string> string_literal() {
    DH_TRY(expect("\""));
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      out.push_back(text_[at_++]);
    }
    if (at_ == text_.size()) return invalid_graph("string without end");
    ++at_;
    return out;
  }
  /// Text up to one of `stops` outside brackets.
  std::string_view raw_until(std::string_view stops) {
    skip();
    const size_t begin = at_;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (depth == 0 && stops.find(c) != std::string_view::npos) break;
      depth += c == '(' || c == '[';
      depth -= c == ')' || c == ']';
      ++at_;
    }
    return trim(text_.substr(begin, at_ - begin));
  }

  static Result<double> to_double(std::string_view text) {
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    double v = 0;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
    if (r.ec != std::errc() || r.ptr != text.data() + text.size()) {
      return invalid_graph(cat("expected a number, found '", printable(text), "'"));
    }
    return v;
  }
  static Result<int64_t> to_int(std::string_view text) {
    int64_t v = 0;
    const auto r = std::from_chars(text.data(), text.data() + text.size(), v);
    if (r.ec != std::errc() || r.ptr != text.data() + text.size()) {
      return invalid_graph(cat("expected an integer, found '", printable(text), "'"));
    }
    return v;
  }

  Result<Dim> to_dim(std::string_view text) {
    const auto d = parse_dim(text, symbols_);
    if (!d) return invalid_graph(cat("'", printable(text), "' is no dimension"));
    return *d;
  }
  /// Members of "[a, b]".
  static Result<std::vector<std::string_view>> members(std::string_view text) {
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
      return invalid_graph(cat("expected a list, found '", printable(text), "'"));
    }
    const std::string_view inner = trim(text.substr(1, text.size() - 2));
    std::vector<std::string_view> out;
    if (inner.empty()) return out;
    int depth = 0;
    size_t begin = 0;
    for (size_t i = 0; i <= inner.size(); ++i) {
      if (i == inner.size() || (inner[i] == ',' && depth == 0)) {
        out.push_back(trim(inner.substr(begin, i - begin)));
        begin = i + 1;
      } else {
        depth += inner[i] == '(';
        depth -= inner[i] == ')';
      }
    }
    return out;
  }

  Result<TensorType> type() {
    const std::string_view dtype_text = word();
    const auto dtype = parse_dtype(dtype_text);
    if (!dtype) return invalid_graph(cat("'", printable(dtype_text), "' is no dtype"));
    TensorType out{*dtype, {}};
    DH_TRY(expect("["));
    const std::string_view list = raw_until("]");
    DH_TRY(expect("]"));
    DH_ASSIGN(const auto parts, members(cat_view("[", list, "]")));
    for (const std::string_view part : parts) {
      DH_ASSIGN(Dim d, to_dim(part));
      out.shape.push_back(std::move(d));
    }
    return out;
  }
  std::string_view cat_view(std::string_view a, std::string_view b, std::string_view c) {
    scratch_ = cat(a, b, c);
    return scratch_;
  }

  Result<Value*> find(const std::string& name) {
    const auto it = values_.find(name);
    if (it == values_.end()) return invalid_graph(cat("%", name, " is not defined"));
    return it->second;
  }
  Status define(const std::string& name, Value* value) {
    if (!values_.emplace(name, value).second) {
      return invalid_graph(cat("%", name, " is defined twice"));
    }
    return {};
  }

  // --- statements
  Status graph() {
    DH_TRY(expect("graph"));
    graph_ = std::make_unique<Graph>();
    graph_->name = std::string(word());
    DH_TRY(expect("{"));
    while (!eat("}")) {
      if (at_end()) return invalid_graph("'}' is missing");
      DH_TRY(statement());
    }
    if (!at_end()) return invalid_graph("text after the graph");
    return {};
  }

  Status statement() {
    if (eat_word("symbol")) return symbol();
    if (eat_word("input")) {
      DH_ASSIGN(const std::string name, value_name());
      DH_TRY(expect(":"));
      DH_ASSIGN(TensorType t, type());
      return define(name, graph_->add_input(name, std::move(t)));
    }
    const bool is_state = eat_word("state");
    if (is_state || eat_word("const")) {
      DH_ASSIGN(const std::string name, value_name());
      DH_TRY(expect(":"));
      DH_ASSIGN(const TensorType t, type());
      DH_TRY(expect("="));
      DH_ASSIGN(Tensor data, constant(t));
      return define(name, is_state ? graph_->add_state(name, std::move(data))
                                   : graph_->add_constant(std::move(data), name));
    }
    if (eat_word("return")) return outputs();
    if (eat_word("update")) {
      DH_ASSIGN(const std::string state_name, value_name());
      DH_TRY(expect("="));
      DH_ASSIGN(const std::string new_name, value_name());
      DH_ASSIGN(Value * state, find(state_name));
      DH_ASSIGN(Value * value, find(new_name));
      if (state->kind() != Value::Kind::kState)
        return invalid_graph(cat("%", state_name, " is no state"));
      graph_->set_state_update(state, value);
      return {};
    }
    return node();
  }

  Status symbol() {
    auto s = std::make_shared<Symbol>();
    s->name = std::string(word());
    DH_TRY(expect("in"));
    DH_TRY(expect("["));
    DH_ASSIGN(s->min, to_int(raw_until(",")));
    DH_TRY(expect(","));
    DH_ASSIGN(s->max, to_int(raw_until("]")));
    DH_TRY(expect("]"));
    if (s->name.empty() || s->min > s->max) return invalid_graph("malformed symbol");
    symbols_[s->name] = s;
    return {};
  }

  Result<Tensor> constant(const TensorType& t) {
    if (!t.is_static()) return invalid_graph("a constant needs static sizes");
    const Sizes sizes = static_sizes(t.shape);
    const auto n = checked_num_elements(sizes);
    constexpr int64_t kMaxElements = 1 << 28;
    if (!n || *n > kMaxElements) return invalid_graph("constant is too large for text");
    Tensor out(t.dtype, sizes);
    if (eat_word("splat")) {
      DH_ASSIGN(const double v, to_double(raw_until(" \n}")));
      for (int64_t i = 0; i < *n; ++i) out.set(i, v);
    } else if (eat_word("random")) {
      DH_ASSIGN(const int64_t seed, to_int(word()));
      Random random(static_cast<uint64_t>(seed));
      for (int64_t i = 0; i < *n; ++i) {
        if (is_float(t.dtype)) {
          out.set(i, random.unit());
        } else {
          out.set_int(i, static_cast<int64_t>(random.bits() >> 63));
        }
      }
    } else if (eat_word("data")) {
      return invalid_graph("this constant was printed without its data");
    } else {
      skip();
      const std::string_view text = raw_until("\n}");
      DH_ASSIGN(const auto parts, members(text));
      if (static_cast<int64_t>(parts.size()) != *n) {
        return invalid_graph(cat(parts.size(), " values for ", t.str()));
      }
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        if (is_float(t.dtype)) {
          DH_ASSIGN(const double v, to_double(parts[i]));
          out.set(at, v);
        } else {
          DH_ASSIGN(const int64_t v, to_int(parts[i]));
          out.set_int(at, v);
        }
      }
    }
    return out;
  }

  Status outputs() {
    do {
      DH_ASSIGN(const std::string name, value_name());
      DH_ASSIGN(Value * value, find(name));
      std::string label = name;
      if (eat_word("as")) {
        DH_ASSIGN(label, string_literal());
      }
      graph_->add_output(value, std::move(label));
    } while (eat(","));
    return {};
  }

  Result<Attr> attribute(const SchemaArg& arg, std::string_view text) {
    if (text == "none") return Attr();
    switch (arg.kind) {
      case ArgKind::kInt: {
        DH_ASSIGN(const int64_t v, to_int(text));
        return Attr(v);
      }
      case ArgKind::kFloat: {
        DH_ASSIGN(const double v, to_double(text));
        return Attr(v);
      }
      case ArgKind::kDim: {
        DH_ASSIGN(Dim d, to_dim(text));
        return Attr(std::move(d));
      }
      case ArgKind::kBool:
        if (text != "true" && text != "false") {
          return invalid_graph(cat(arg.name, ": expected true or false"));
        }
        return Attr(text == "true");
      case ArgKind::kString:
        if (text.size() < 2 || text.front() != '"' || text.back() != '"') {
          return invalid_graph(cat(arg.name, ": expected a string"));
        }
        return Attr(std::string(text.substr(1, text.size() - 2)));
      case ArgKind::kDType: {
        const auto d = parse_dtype(text);
        if (!d) return invalid_graph(cat("'", printable(text), "' is no dtype"));
        return Attr(*d);
      }
      default:
        break;
    }
    DH_ASSIGN(const auto parts, members(text));
    Ints ints;
    Dims dims;
    Floats floats;
    for (const std::string_view part : parts) {
      if (arg.kind == ArgKind::kInts) {
        DH_ASSIGN(const int64_t v, to_int(part));
        ints.push_back(v);
      } else if (arg.kind == ArgKind::kDims) {
        DH_ASSIGN(Dim d, to_dim(part));
        dims.push_back(std::move(d));
      } else {
        DH_ASSIGN(const double v, to_double(part));
        floats.push_back(v);
      }
    }
    if (arg.kind == ArgKind::kInts) return Attr(std::move(ints));
    if (arg.kind == ArgKind::kDims) return Attr(std::move(dims));
    return Attr(std::move(floats));
  }

  Status node() {
    std::vector<std::string> names;
    std::vector<std::optional<TensorType>> types;
    do {
      DH_ASSIGN(std::string name, value_name());
      names.push_back(std::move(name));
      types.emplace_back();
      if (eat(":")) {
        DH_ASSIGN(types.back(), type());
      }
    } while (eat(","));
    DH_TRY(expect("="));
    const std::string op_name(word());
    const OpDef* op = lookup_(op_name);
    if (op == nullptr) return invalid_graph(cat("unknown operator '", printable(op_name), "'"));
    const Schema& schema = schema_of(*op);
    DH_TRY(expect("("));
    std::vector<Value*> operands;
    NamedAttrs attrs;
    bool first = true;
    while (!eat(")")) {
      if (!first) DH_TRY(expect(","));
      first = false;
      if (peek() == '%') {
        DH_ASSIGN(const std::string name, value_name());
        DH_ASSIGN(Value * v, find(name));
        operands.push_back(v);
        continue;
      }
      const std::string_view key = word();
      if (key == "none" && !eat("=")) {
        operands.push_back(nullptr);
        continue;
      }
      const SchemaArg* arg = schema.find(key);
      if (arg == nullptr || arg->kind == ArgKind::kTensor || arg->kind == ArgKind::kTensorList) {
        return invalid_graph(cat(op_name, " has no attribute '", printable(key), "'"));
      }
      if (key != "none") DH_TRY(expect("="));
      DH_ASSIGN(Attr value, attribute(*arg, raw_until(",)")));
      attrs.emplace_back(arg->name, std::move(value));
    }
    DH_ASSIGN(Node * created, graph_->insert(nullptr, *op, std::move(operands), attrs, names[0]));
    if (static_cast<int>(names.size()) != created->num_results()) {
      return invalid_graph(cat(op_name, " has ", created->num_results(), " results, found ",
                               names.size(), " names"));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      Value* r = created->result(static_cast<int>(i));
      if (types[i] && !(*types[i] == r->type())) {
        return invalid_graph(
            cat("%", names[i], " is ", r->type().str(), ", stated as ", types[i]->str()));
      }
      if (r->name() != names[i]) graph_->rename(r, names[i]);
      DH_TRY(define(names[i], r));
    }
    return {};
  }

  std::string_view text_;
  OpLookup lookup_;
  size_t at_ = 0;
  int line_ = 1;
  std::string scratch_;
  std::unique_ptr<Graph> graph_;
  std::map<std::string, SymbolPtr, std::less<>> symbols_;
  std::map<std::string, Value*> values_;
};

}  // namespace

Result<std::unique_ptr<Graph>> parse_graph(std::string_view text, OpLookup lookup) {
  return Parser(text, lookup).parse();
}

}  // namespace downhaul

#include "rewrite/pattern.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/strings.h"
#include "ops/ops.h"

namespace downhaul {

namespace {

/// Literals in patterns are written with the digits a person types.
constexpr double kNumberTolerance = 1e-6;
/// Larger constants are weights; reading them to see whether they are a number would page them in.
constexpr int64_t kMaxNumberElements = 1 << 16;

bool close(double a, double b) {
  return a == b || std::abs(a - b) <= kNumberTolerance * std::max(std::abs(a), std::abs(b));
}

bool is_number(const Value* value, double number) {
  if (value == nullptr || !value->is_constant()) return false;
  const Tensor& t = value->constant();
  if (t.num_elements() > kMaxNumberElements) return false;
  double found = 0;
  return t.is_splat(&found) && close(found, number);
}

template <typename T>
std::optional<T> to_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Splits at commas that are not inside brackets.
std::vector<std::string_view> split_args(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '(') ++depth;
    if (text[i] == ']' || text[i] == ')') --depth;
    if (text[i] == ',' && depth == 0) {
      out.push_back(trim(text.substr(start, i - start)));
      start = i + 1;
    }
  }
  if (!trim(text).empty()) out.push_back(trim(text.substr(start)));
  return out;
}

/// "[1,-2]" of numbers; nullopt when malformed.
template <typename T>
std::optional<std::vector<T>> parse_list(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  std::vector<T> out;
  for (const std::string_view item : split_args(text.substr(1, text.size() - 2))) {
    const auto value = to_number<T>(item);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return out;
}

std::optional<Attr> parse_literal(ArgKind kind, std::string_view text) {
  if (text == "none") return Attr{};
  const auto wrap = [](auto parsed) -> std::optional<Attr> {
    if (!parsed) return std::nullopt;
    return Attr(*std::move(parsed));
  };
  switch (kind) {
    case ArgKind::kInt:
      return wrap(to_number<int64_t>(text));
    case ArgKind::kFloat:
      return wrap(to_number<double>(text));
    case ArgKind::kInts:
      return wrap(parse_list<int64_t>(text));
    case ArgKind::kFloats:
      return wrap(parse_list<double>(text));
    case ArgKind::kBool:
      if (text != "true" && text != "false") return std::nullopt;
      return Attr(text == "true");
    case ArgKind::kDType:
      return wrap(parse_dtype(text));
    case ArgKind::kString:
      if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::nullopt;
      return Attr(std::string(text.substr(1, text.size() - 2)));
    case ArgKind::kDim: {
      const auto value = to_number<int64_t>(text);
      if (!value) return std::nullopt;
      return Attr(Dim(*value));
    }
    case ArgKind::kDims: {
      const auto values = parse_list<int64_t>(text);
      if (!values) return std::nullopt;
      return Attr(Dims(values->begin(), values->end()));
    }
    case ArgKind::kTensor:
    case ArgKind::kTensorList:
      return std::nullopt;
  }
  return std::nullopt;
}

bool same_attr(const Attr& found, const Attr& wanted) {
  const auto* a = std::get_if<double>(&found);
  const auto* b = std::get_if<double>(&wanted);
  if (a && b) return close(*a, *b);
  return found == wanted;
}

}  // namespace

// ---------------------------------------------------------------------------------------- parsing

Pattern::Pattern(const Rewrite& rewrite) : rewrite_name_(rewrite.name) {
  for (std::string_view line : split(rewrite.match, '\n')) {
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    line_ = line;
    parse_line(line);
  }
  if (nodes_.empty()) malformed("no line");
}

void Pattern::malformed(std::string_view why) const {
  const std::string message =
      cat("pattern of rewrite '", rewrite_name_, "': ", why, " in: ", line_);
  internal::check_failed(__FILE__, __LINE__, message.c_str());
}

int Pattern::name_index(std::string_view name) {
  if (name.size() < 2 || name.front() != '%') malformed("expected a name with %");
  name.remove_prefix(1);
  const auto it = std::find(names_.begin(), names_.end(), name);
  if (it != names_.end()) return static_cast<int>(it - names_.begin());
  names_.emplace_back(name);
  definitions_.emplace_back();
  return static_cast<int>(names_.size()) - 1;
}

Pattern::Arg Pattern::parse_arg(std::string_view text) {
  const auto after = [&](std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text = trim(text.substr(prefix.size()));
    return true;
  };
  Arg arg;
  if (text == "none") {
    arg.kind = ArgKind::kNone;
    return arg;
  }
  if (const auto number = to_number<double>(text)) {
    arg.kind = ArgKind::kNumber;
    arg.number = *number;
    return arg;
  }
  if (after("const? ")) {
    arg.kind = ArgKind::kMaybeConstant;
  } else if (after("const ")) {
    arg.kind = ArgKind::kConstant;
  } else if (after("? ")) {
    arg.kind = ArgKind::kMaybe;
  }
  arg.name = name_index(text);
  return arg;
}

void Pattern::parse_attr(std::string_view key, std::string_view text, PatternNode& node) {
  const SchemaArg* schema = schema_of(*node.op).find(key);
  if (schema == nullptr) malformed("unknown attribute");
  AttrRule rule;
  rule.index = schema->index;
  if (text.starts_with('$')) {
    text.remove_prefix(1);
    const auto it = std::find(attr_names_.begin(), attr_names_.end(), text);
    rule.binding = static_cast<int>(it - attr_names_.begin());
    if (it == attr_names_.end()) attr_names_.emplace_back(text);
  } else {
    auto literal = parse_literal(schema->kind, text);
    if (!literal) malformed("literal does not fit the attribute");
    rule.literal = *std::move(literal);
    rule.is_axis = schema->kind == downhaul::ArgKind::kInt && key == "dim";
  }
  node.attrs.push_back(std::move(rule));
}

void Pattern::parse_line(std::string_view line) {
  PatternNode node;
  if (line.starts_with("shared ")) {
    node.shared = true;
    line = trim(line.substr(7));
  }
  const size_t equals = line.find('=');
  const size_t open = line.find('(');
  if (equals == std::string_view::npos || open == std::string_view::npos || equals > open ||
      line.back() != ')') {
    malformed("expected %name = operator(...)");
  }
  node.op = find_op(trim(line.substr(equals + 1, open - equals - 1)));
  if (node.op == nullptr) malformed("unknown operator");
  for (const auto arg : split_args(line.substr(open + 1, line.size() - open - 2))) {
    const size_t sign = arg.find('=');
    if (sign == std::string_view::npos) {
      node.args.push_back(parse_arg(arg));
    } else {
      parse_attr(trim(arg.substr(0, sign)), trim(arg.substr(sign + 1)), node);
    }
  }
  int result = 0;
  for (const std::string_view name : split(line.substr(0, equals), ',')) {
    const int index = name_index(trim(name));
    if (definitions_[static_cast<size_t>(index)].node >= 0) malformed("defined twice");
    definitions_[static_cast<size_t>(index)] = {static_cast<int>(nodes_.size()), result++};
    node.results.push_back(index);
  }
  nodes_.push_back(std::move(node));
}

// --------------------------------------------------------------------------------------- matching

bool Pattern::check_attrs(const PatternNode& pattern, const Node& node, State& state) const {
  for (const AttrRule& rule : pattern.attrs) {
    const Attr& found = node.attrs()[static_cast<size_t>(rule.index)];
    if (rule.binding >= 0) {
      const Attr*& bound = state.attrs[static_cast<size_t>(rule.binding)];
      if (bound != nullptr && !(*bound == found)) return false;
      bound = &found;
      continue;
    }
    if (rule.is_axis) {
      const int64_t* axis = std::get_if<int64_t>(&found);
      const int64_t rank = node.operand(0) != nullptr ? node.operand(0)->rank() : 0;
      const auto normal = [rank](int64_t a) { return a < 0 ? a + rank : a; };
      if (axis == nullptr || normal(*axis) != normal(std::get<int64_t>(rule.literal))) return false;
      continue;
    }
    if (!same_attr(found, rule.literal)) return false;
  }
  return true;
}

void Pattern::push_operands(const PatternNode& pattern, const Node& node, bool swapped,
                            std::vector<Goal>& goals) const {
  for (size_t i = 0; i < pattern.args.size(); ++i) {
    const size_t from = swapped && i < 2 ? 1 - i : i;
    goals.push_back({pattern.args[i], node.operands()[from]});
  }
}

/// Binds one argument. When it is defined by a pattern line, checks the node that produces the
/// value and, unless its operands may be swapped (`fork`), adds them to the goals.
bool Pattern::bind(const Arg& arg, Value* value, State& state, std::vector<Goal>& goals, bool& fork,
                   int& forked_node) const {
  switch (arg.kind) {
    case ArgKind::kNone:
      return value == nullptr;
    case ArgKind::kNumber:
      return is_number(value, arg.number);
    case ArgKind::kConstant:
      if (value == nullptr || !value->is_constant()) return false;
      break;
    case ArgKind::kMaybeConstant:
      if (value != nullptr && !value->is_constant()) return false;
      break;
    case ArgKind::kValue:
      if (value == nullptr) return false;
      break;
    case ArgKind::kMaybe:
      break;
  }
  const auto name = static_cast<size_t>(arg.name);
  if (state.bound[name]) return state.values[name] == value;
  state.bound[name] = true;
  state.values[name] = value;

  const Definition& definition = definitions_[name];
  if (definition.node < 0) return true;
  if (value == nullptr || value->producer() == nullptr) return false;
  Node& node = *value->producer();
  const PatternNode& pattern = nodes_[static_cast<size_t>(definition.node)];
  if (!node.is(*pattern.op) || value->result_index() != definition.result) return false;
  Node*& bound = state.nodes[static_cast<size_t>(definition.node)];
  if (bound != nullptr) return bound == &node;
  bound = &node;
  const auto& operands = node.operands();
  if (operands.size() < pattern.args.size()) return false;
  for (size_t i = pattern.args.size(); i < operands.size(); ++i) {
    if (operands[i] != nullptr) return false;
  }
  if (!check_attrs(pattern, node, state)) return false;
  if (node.op().commutative && pattern.args.size() >= 2) {
    fork = true;
    forked_node = definition.node;
  } else {
    push_operands(pattern, node, false, goals);
  }
  return true;
}

bool Pattern::solve(State& state, std::vector<Goal> goals) const {
  while (!goals.empty()) {
    const Goal goal = goals.back();
    goals.pop_back();
    bool fork = false;
    int forked_node = -1;
    if (!bind(goal.arg, goal.value, state, goals, fork, forked_node)) return false;
    if (!fork) continue;
    const PatternNode& pattern = nodes_[static_cast<size_t>(forked_node)];
    const Node& node = *state.nodes[static_cast<size_t>(forked_node)];
    State attempt = state;
    std::vector<Goal> attempt_goals = goals;
    push_operands(pattern, node, false, attempt_goals);
    if (solve(attempt, std::move(attempt_goals))) {
      state = std::move(attempt);
      return true;
    }
    push_operands(pattern, node, true, goals);
  }
  return uses_stay_inside(state);
}

bool Pattern::uses_stay_inside(const State& state) const {
  for (size_t i = 0; i + 1 < nodes_.size(); ++i) {
    if (nodes_[i].shared) continue;
    const Node* node = state.nodes[i];
    if (node == nullptr) return false;
    for (int r = 0; r < node->num_results(); ++r) {
      const Value* result = node->result(r);
      if (result->num_output_uses() > 0) return false;
      for (const Use& use : result->uses()) {
        if (std::find(state.nodes.begin(), state.nodes.end(), use.node) == state.nodes.end()) {
          return false;
        }
      }
    }
  }
  return true;
}

bool Pattern::match(Node& root, Match* match) const {
  const PatternNode& last = nodes_.back();
  if (!root.is(*last.op)) return false;
  State state;
  state.values.resize(names_.size());
  state.bound.resize(names_.size());
  state.nodes.resize(nodes_.size());
  state.attrs.resize(attr_names_.size());
  Arg root_arg;
  root_arg.name = last.results[0];
  if (!solve(state, {{root_arg, root.result(0)}})) return false;
  if (match == nullptr) return true;
  match->root_ = &root;
  match->nodes_ = state.nodes;
  for (size_t i = 0; i < names_.size(); ++i) match->values_[names_[i]] = state.values[i];
  for (size_t i = 0; i < attr_names_.size(); ++i) match->attrs_[attr_names_[i]] = *state.attrs[i];
  return true;
}

const Pattern& pattern_of(const Rewrite& rewrite) {
  static std::mutex mutex;
  static std::unordered_map<const Rewrite*, std::unique_ptr<Pattern>> patterns;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Pattern>& pattern = patterns[&rewrite];
  if (pattern == nullptr) pattern = std::make_unique<Pattern>(rewrite);
  return *pattern;
}

}  // namespace downhaul
